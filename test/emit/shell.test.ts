import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sbatchValue, shComment, shQuote } from '../../sdk/emit/shell.ts'
import { UnwritableValue } from '../../sdk/emit/text.ts'
import { tomlString, tomlStrings } from '../../sdk/emit/toml.ts'
import { askPython, hostile, parseBash } from './tools.ts'

const text = fc.oneof(
  fc.constantFrom(...hostile),
  fc.string({ unit: 'binary' }).map((drawn) => drawn.replaceAll('\0', '')),
)

describe('shell', () => {
  test('a quoted word means its text in bash', () => {
    const drawn = [...hostile, ...fc.sample(text, 500)]
    const script = `printf '%s\\0' ${drawn.map(shQuote).join(' ')}`
    parseBash(script)
    const output = execFileSync('bash', ['-c', script], { env: { ...process.env, LC_ALL: 'C.UTF-8' } })
    expect(output.toString('utf8').split('\0').slice(0, -1)).toEqual(drawn)
  })

  test('plain words stay as they are', () => {
    expect(['train.py', '--a=b', 'a b', "it's"].map(shQuote)).toEqual(['train.py', '--a=b', "'a b'", "'it'\\''s'"])
  })

  test('NUL and lone surrogates are refused', () => {
    for (const quote of [shQuote, sbatchValue, shComment, tomlString]) {
      expect(() => quote('a\0b')).toThrow(UnwritableValue)
      expect(() => quote('\ud800')).toThrow(UnwritableValue)
    }
  })

  test('comments stay on their line and give no orders', () => {
    const script = [...hostile, ...fc.sample(text, 300)].map(shComment).join('\n')
    expect(execFileSync('bash', ['-c', script], { encoding: 'utf8' })).toBe('')
    expect(script).not.toMatch(/^#\s*(SBATCH|shellcheck)/m)
  })
})

/** Slurm's own reader of an option line (`_get_argument` of src/sbatch/opt.c), word by word. */
function slurmWords(line: string): string[] {
  const words: string[] = []
  let word = ''
  let quoted: string | undefined
  let inWord = false
  for (let index = 0; index < line.length; index++) {
    const character = line.charAt(index)
    if (character === '\\') {
      word += line.charAt(++index)
      inWord = true
    } else if (quoted !== undefined && character === quoted) quoted = undefined
    else if (quoted === undefined && (character === '"' || character === "'")) {
      quoted = character
      inWord = true
    } else if (quoted === undefined && character === '#') break
    else if (quoted === undefined && /\s/.test(character)) {
      if (inWord) words.push(word)
      word = ''
      inWord = false
    } else {
      word += character
      inWord = true
    }
  }
  if (inWord) words.push(word)
  return words
}

describe('#SBATCH', () => {
  test('a value is one word to Slurm', () => {
    fc.assert(
      fc.property(text, (drawn) => {
        fc.pre(!/\p{Cc}/u.test(drawn))
        expect(slurmWords(`--partition=${sbatchValue(drawn)}`)).toEqual([`--partition=${drawn}`])
      }),
    )
  })

  test('line breaks are refused', () => {
    expect(() => sbatchValue('gpu\n#SBATCH --uid=0')).toThrow(UnwritableValue)
  })
})

describe('TOML', () => {
  test('strings mean their text', () => {
    const drawn = [...hostile, ...fc.sample(text, 500)]
    const source = `${drawn.map((item, index) => `k${index} = ${tomlString(item)}`).join('\n')}\nall = ${tomlStrings(drawn)}\nnone = ${tomlStrings([])}\n`
    const back = askPython(
      'import json, sys, tomllib; print(json.dumps(tomllib.loads(json.load(sys.stdin))))',
      source,
    ) as Record<string, unknown>
    expect(drawn.map((_, index) => back[`k${index}`])).toEqual(drawn)
    expect(back['all']).toEqual(drawn)
    expect(back['none']).toEqual([])
  })
})
