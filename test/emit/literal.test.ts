import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Document } from '../../sdk/emit/python/document.ts'
import { formatPython } from '../../sdk/emit/python/format.ts'
import {
  anyFloat,
  bool,
  call,
  comment,
  commentLines,
  dict,
  docstring,
  float,
  int,
  isIdentifier,
  list,
  name,
  none,
  py,
  raw,
  str,
  tuple,
  use,
  value,
  type Json,
  type Py,
} from '../../sdk/emit/python/literal.ts'
import { UnwritableValue } from '../../sdk/emit/text.ts'
import { askPython, compilePython, hostile, ruff } from './tools.ts'

/** Writable text: any unicode but NUL and lone surrogates, with the nasty ones drawn often. */
const text = fc.oneof(
  fc.constantFrom(...hostile),
  fc.string({ unit: 'binary' }).map((drawn) => drawn.replaceAll('\0', '')),
  fc
    .array(fc.constantFrom('"', "'", '\\', '\n', '\r', '#', '{', '}', '$', ' ', 'a', '\u2028', 'é', '🤖'), {
      maxLength: 12,
    })
    .map((parts) => parts.join('')),
)

/** Evaluates literals with `ast.literal_eval`; gives back `[type, repr that JSON can hold]` of each. */
const evaluate = `
import ast, json, math, sys
def show(v):
    if isinstance(v, bool) or v is None or isinstance(v, str): return [type(v).__name__, v]
    if isinstance(v, int): return ["int", str(v)]
    if isinstance(v, float): return ["float", v.hex()]
    if isinstance(v, (list, tuple)): return [type(v).__name__, [show(x) for x in v]]
    return ["dict", [[show(k), show(x)] for k, x in v.items()]]
print(json.dumps([show(ast.literal_eval(t)) for t in json.load(sys.stdin)]))
`
const read = (literals: readonly Py[]): unknown[] =>
  askPython(
    evaluate,
    literals.map((literal) => literal.text),
  ) as unknown[]

const hexFloats = `
import json, struct, sys
print(json.dumps([struct.unpack(">d", bytes.fromhex(h))[0].hex() for h in json.load(sys.stdin)]))
`
const hex = (numbers: readonly number[]): string[] =>
  askPython(
    hexFloats,
    numbers.map((number) => {
      const bytes = Buffer.alloc(8)
      bytes.writeDoubleBE(number)
      return bytes.toString('hex')
    }),
  ) as string[]

describe('literals mean in CPython what they are in TypeScript', () => {
  test('strings', () => {
    const drawn = [...hostile, ...fc.sample(text, 3000)]
    expect(read(drawn.map(str))).toEqual(drawn.map((item) => ['str', item]))
  })

  test('a string literal is one line of visible characters', () => {
    fc.assert(fc.property(text, (drawn) => /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]*$/u.test(str(drawn).text)))
  })

  test('NUL and lone surrogates are refused', () => {
    for (const bad of ['a\0b', '\ud800', 'x\udc00y']) {
      expect(() => str(bad)).toThrow(UnwritableValue)
      expect(() => docstring(bad)).toThrow(UnwritableValue)
      expect(() => comment(bad)).toThrow(UnwritableValue)
      expect(() => dict([[bad, none]])).toThrow(UnwritableValue)
    }
  })

  test('integers', () => {
    const drawn = [
      0,
      -0,
      7,
      999,
      1000,
      -1000,
      12_345_678,
      Number.MAX_SAFE_INTEGER,
      2n ** 53n + 1n,
      -(10n ** 40n),
      ...fc.sample(fc.bigInt(), 500),
      ...fc.sample(fc.maxSafeInteger(), 500),
    ]
    expect(read(drawn.map(int))).toEqual(drawn.map((item) => ['int', item.toString()]))
    expect(int(50_000).text).toBe('50_000')
    expect(() => int(1.5)).toThrow(UnwritableValue)
    expect(() => int(2 ** 53)).toThrow(UnwritableValue)
    expect(() => int(Number.NaN)).toThrow(UnwritableValue)
  })

  test('floats', () => {
    const drawn = [
      0,
      -0,
      1,
      -1,
      1e-7,
      2e-6,
      0.001,
      1e21,
      1e22,
      5e-324,
      1.7976931348623157e308,
      0.1 + 0.2,
      ...fc.sample(fc.double({ noNaN: true, noDefaultInfinity: true }), 2000),
    ]
    expect(read(drawn.map(float))).toEqual(hex(drawn).map((item) => ['float', item]))
    expect([1, -0, 1e-7, 2e-6, 0.001, 0.01, 0.9, 80, 1e21].map((item) => float(item).text)).toEqual([
      '1.0',
      '-0.0',
      '1e-7',
      '2e-6',
      '1e-3',
      '0.01',
      '0.9',
      '80.0',
      '1e21',
    ])
    for (const bad of [Number.NaN, Infinity, -Infinity]) expect(() => float(bad)).toThrow(UnwritableValue)
    expect([Number.NaN, Infinity, -Infinity, 1].map((item) => anyFloat(item).text)).toEqual([
      'float("nan")',
      'float("inf")',
      'float("-inf")',
      '1.0',
    ])
  })

  test('nested JSON', () => {
    const json = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        text,
        fc.boolean(),
        fc.constant(null),
        fc.maxSafeInteger(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.array(tie('value')),
        fc.dictionary(text, tie('value')),
      ),
    })).value
    const drawn = fc.sample(json, 500)
    const back = askPython(
      `
import ast, json, sys
items = json.load(sys.stdin)
print(json.dumps([ast.literal_eval(text) == json.loads(original, parse_int=float) for text, original in items]))
`,
      drawn.map((item) => [value(item).text, JSON.stringify(item)]),
    )
    expect(back).toEqual(drawn.map(() => true))
  })

  test('containers, booleans and None', () => {
    const items = [int(1), str('a')]
    expect(
      read([
        list([]),
        list(items),
        tuple([]),
        tuple([int(1)]),
        tuple(items),
        dict([['k', list(items)]]),
        bool(true),
        bool(false),
        none,
      ]),
    ).toEqual([
      ['list', []],
      [
        'list',
        [
          ['int', '1'],
          ['str', 'a'],
        ],
      ],
      ['tuple', []],
      ['tuple', [['int', '1']]],
      [
        'tuple',
        [
          ['int', '1'],
          ['str', 'a'],
        ],
      ],
      [
        'dict',
        [
          [
            ['str', 'k'],
            [
              'list',
              [
                ['int', '1'],
                ['str', 'a'],
              ],
            ],
          ],
        ],
      ],
      ['bool', true],
      ['bool', false],
      ['NoneType', null],
    ])
    expect(value({ a: undefined, b: 1 }).text).toBe('{"b": 1}')
  })

  test('the formatter keeps what a literal means', () => {
    const drawn = [...hostile, ...fc.sample(text, 300)]
    const formatted = drawn.map((item) =>
      raw(
        formatPython(`x = ${str(item).text}`, 'x.py')
          .slice('x = '.length)
          .trim(),
      ),
    )
    expect(read(formatted)).toEqual(drawn.map((item) => ['str', item]))
  })
})

describe('names', () => {
  test('agree with CPython', () => {
    const drawn = [
      'x',
      '_',
      'match',
      'type',
      'case',
      'class',
      'None',
      'True',
      'async',
      '',
      '1a',
      'a b',
      'a-b',
      'lambda',
      'print',
      ...fc.sample(fc.string({ maxLength: 6 }), 500),
    ]
    const back = askPython(
      'import json, keyword, sys; print(json.dumps([s.isidentifier() and s.isascii() and not keyword.iskeyword(s) for s in json.load(sys.stdin)]))',
      drawn,
    )
    expect(drawn.map(isIdentifier)).toEqual(back)
  })

  test('what is no name is refused', () => {
    for (const bad of ['class', 'a.b', 'x;y', 'ſ', '']) expect(() => name(bad)).toThrow(UnwritableValue)
    expect(() => use('os; import sys')).toThrow(UnwritableValue)
    expect(() => use('os', 'path as p')).toThrow(UnwritableValue)
    expect(() => call(name('f'), [{ keyword: 'not a name', value: none }])).toThrow(UnwritableValue)
  })

  test('a plain string is no expression', () => {
    // @ts-expect-error only `raw` makes an expression of text
    const bad: Py = 'x'
    expect(bad).toBe('x')
  })
})

describe('docstrings and comments', () => {
  test('a docstring says its text', () => {
    const drawn = [...hostile, ...fc.sample(text, 1500)].filter((item) => item.trim() !== '')
    const back = askPython(
      `
import ast, inspect, json, sys
def lines(text): return [line.rstrip(" \\t") for line in text.replace("\\r\\n", "\\n").replace("\\r", "\\n").replace("\\u2028", "\\n").replace("\\u2029", "\\n").split("\\n")]
out = []
for source, text in json.load(sys.stdin):
    found = ast.parse(source).body[0].value.value
    out.append(found == "\\n".join(lines(text)))
print(json.dumps(out))
`,
      drawn.map((item) => [docstring(item).text, item]),
    )
    expect(drawn.filter((_, index) => !(back as boolean[])[index])).toEqual([])
  })

  test('nothing gets out of a comment, and no tool obeys it', () => {
    const drawn = [...hostile, ...fc.sample(text, 500)]
    const source = drawn.map((item) => `x = 1  ${comment(item)}`).join('\n')
    const tokens = askPython(
      `
import io, json, sys, tokenize
source = json.load(sys.stdin)
print(json.dumps([t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER)]))
`,
      source,
    ) as string[]
    expect(tokens.join('')).toBe('x=1'.repeat(drawn.length))
    expect(ruff('x.py', 'import os  ' + comment('unused # noqa'))).toHaveLength(1)
    expect(ruff('x.py', 'import os  ' + comment('noqa'))).toHaveLength(1)
    expect(formatPython(`${comment('fmt: off')}\nx  =  1\n`, 'x.py')).toContain('x = 1')
  })

  test('long comments wrap', () => {
    const lines = commentLines('word '.repeat(100), 60)
    expect(lines.every((line) => line.length <= 60 && line.startsWith('# '))).toBe(true)
  })
})

describe('documents', () => {
  test('collect imports in the order that ruff wants', () => {
    const document = new Document('About "this"\n\nand \\ that """')
    document
      .line(
        py`a = ${use('torch')}.nn, ${use('hooks')}, ${use('vla_runtime.mesh', 'device_mesh')}, ${use('vla_runtime.mesh', 'Alpha')}`,
      )
      .line(
        py`b = ${use('model', 'CAMERAS')}, ${use('model', 'build_model')}, ${use('pathlib', 'Path')}, ${use('model', 'CAMERAS')}`,
      )
    const formatted = formatPython(document.render(), 'x.py')
    expect(ruff('x.py', formatted)).toEqual([])
    expect(formatted).toContain(
      'from pathlib import Path\n\nimport torch\n\nimport hooks\nfrom model import CAMERAS, build_model\nfrom vla_runtime.mesh import Alpha, device_mesh\n',
    )
    expect(formatPython(formatted, 'x.py')).toBe(formatted)
  })

  test('reasons stand behind a statement, or above it where they are long', () => {
    const document = new Document('x')
    document.block(py`def f() -> None:`, (body) => {
      body.line(py`a = 1`, 'short').line(py`b = 2`, 'long '.repeat(40))
      body.line(
        py`c = ${call(name('dict'), [
          { keyword: 'k', value: int(1), comment: 'one' },
          { keyword: 'l', value: int(2) },
        ])}`,
        'about c',
      )
    })
    const formatted = formatPython(document.render(), 'x.py')
    expect(formatted).toContain('    a = 1  # short\n    # long')
    expect(formatted).toContain('    # about c\n    c = dict(\n        k=1,  # one\n        l=2,\n    )\n')
    expect(formatted.split('\n').every((line) => line.length <= 120)).toBe(true)
  })

  test('hostile text through every part of a document compiles', () => {
    const sources = [...hostile, ...fc.sample(text, 200)].map((item, index) => {
      const document = new Document(`x: ${item}`)
      document.line(py`a = ${str(item)}`, item).note(item)
      document.block(py`def f() -> None:`, (body) =>
        body.line(py`${call(name('print'), [{ keyword: 'end', value: str(item), comment: item }])}`),
      )
      return { name: `x${index}.py`, source: formatPython(document.render(), 'x.py') }
    })
    compilePython(sources)
    for (const { name: path, source } of sources) expect(formatPython(source, path)).toBe(source)
  })
})
