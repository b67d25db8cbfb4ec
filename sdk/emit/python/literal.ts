/**
 * The one way by which values reach Python source.
 *
 * An expression ({@link Py}) can only be made here: from a value through `str`, `int`, `float`, `value`, ..., or from our own source
 * text through the `py` template, whose interpolations must be expressions again. A plain string does not type-check as an expression.
 */
import { codePoints, isInvisible, oneLine, UnwritableValue, writable, wrap } from '../text.ts'

/** What an expression needs at the top of its file: `from module import name`, or `import module` where `name` is null. */
export interface Import {
  readonly module: string
  /** With its alias: `preflight as check`. */
  readonly name: string | null
}

const brand: unique symbol = Symbol('Py')

/** Python source that is known to be well-formed, with the imports it needs. */
export interface Py {
  readonly [brand]: true
  readonly text: string
  readonly imports: readonly Import[]
}

/** Source text that nothing has checked. Only for text that we wrote ourselves. */
export function raw(text: string, imports: readonly Import[] = []): Py {
  return { [brand]: true, text, imports }
}

/** Our own source with expressions in it: py`len(${value})`. */
export function py(source: TemplateStringsArray, ...expressions: readonly Py[]): Py {
  let text = source[0] ?? ''
  expressions.forEach((expression, index) => {
    text += expression.text + (source[index + 1] ?? '')
  })
  return raw(
    text,
    expressions.flatMap((expression) => expression.imports),
  )
}

export const none: Py = raw('None')

export function bool(value: boolean): Py {
  return raw(value ? 'True' : 'False')
}

/** An integer of any size, digits in groups of three from a thousand on. Throws where a number is not a whole one or has lost digits. */
export function int(value: number | bigint): Py {
  if (typeof value === 'number' && !Number.isSafeInteger(value)) {
    throw new UnwritableValue(`${value} is not an integer that JavaScript holds exactly; use a bigint`)
  }
  const digits = value.toString() // -0 becomes 0
  const sign = digits.startsWith('-') ? '-' : ''
  return raw(sign + digits.slice(sign.length).replace(/\B(?=(\d{3})+$)/g, '_'))
}

/** A float, always one in Python too (`1` becomes `1.0`), in the shorter of the two notations. Throws for infinities and NaN. */
export function float(value: number): Py {
  if (!Number.isFinite(value)) throw new UnwritableValue(`${value} is not a finite number`)
  if (Object.is(value, -0)) return raw('-0.0')
  let plain = String(value).replace('e+', 'e')
  if (/^-?\d+$/.test(plain)) plain += '.0'
  const exponential = value.toExponential().replace('e+', 'e')
  return raw(Math.abs(value) < 1 && exponential.length < plain.length ? exponential : plain)
}

/** A float that may be infinite or not a number: `float("inf")`. */
export function anyFloat(value: number): Py {
  if (Number.isNaN(value)) return raw('float("nan")')
  if (!Number.isFinite(value)) return raw(value > 0 ? 'float("inf")' : 'float("-inf")')
  return float(value)
}

const shortEscapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function escapeCharacter(character: string): string {
  const short = shortEscapes[character]
  if (short !== undefined) return short
  if (!isInvisible(character)) return character
  const code = character.codePointAt(0) ?? 0
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`
  if (code <= 0xffff) return `\\u${code.toString(16).padStart(4, '0')}`
  return `\\U${code.toString(16).padStart(8, '0')}`
}

/** A string on one line. What cannot be seen is escaped. Throws for NUL and lone surrogates. */
export function str(value: string): Py {
  const quote = value.split('"').length > value.split("'").length ? "'" : '"' // the quote that needs fewer escapes, as ruff
  const body = codePoints(writable(value, 'string'))
    .map((character) => (character === quote ? `\\${quote}` : escapeCharacter(character)))
    .join('')
  return raw(quote + body + quote)
}

/** `"one", "two", ...` between brackets. */
export function list(items: readonly Py[]): Py {
  return raw(
    `[${items.map((item) => item.text).join(', ')}]`,
    items.flatMap((item) => item.imports),
  )
}

export function tuple(items: readonly Py[]): Py {
  const text = items.map((item) => item.text).join(', ')
  return raw(
    items.length === 1 ? `(${text},)` : `(${text})`,
    items.flatMap((item) => item.imports),
  )
}

export function dict(entries: readonly (readonly [key: string, value: Py])[]): Py {
  return raw(
    `{${entries.map(([key, value]) => `${str(key).text}: ${value.text}`).join(', ')}}`,
    entries.flatMap(([, value]) => value.imports),
  )
}

/** JSON as the Plan holds it. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json | undefined }

/**
 * Any JSON value. Whole numbers become ints; where Python wants a float, use {@link float}. Keys come in canonical order, since two
 * plans that differ in nothing else are the same. Throws for numbers that are not finite.
 */
export function value(json: Json): Py {
  if (json === null) return none
  if (typeof json === 'string') return str(json)
  if (typeof json === 'boolean') return bool(json)
  if (typeof json === 'number')
    return Number.isInteger(json) && Number.isSafeInteger(json) && !Object.is(json, -0) ? int(json) : float(json)
  if (Array.isArray(json)) return list((json as readonly Json[]).map(value))
  return dict(
    Object.entries(json)
      .filter((entry): entry is [string, Json] => entry[1] !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, value(item)] as const),
  )
}

/** Python 3.12's keywords; soft ones (`match`, `type`) are names like others. */
const keywords = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if import in is ' +
    'lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
)

/** Whether a text can name a variable, argument or attribute. ASCII only: Python folds other letters (NFKC), so two names may be one. */
export function isIdentifier(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text) && !keywords.has(text)
}

/** A name. Throws where it is none. */
export function name(text: string): Py {
  if (!isIdentifier(text)) throw new UnwritableValue(`${JSON.stringify(text)} is not a Python name`)
  return raw(text)
}

/** A name from another module; the file that uses it imports it. `use('torch')` is the module itself. */
export function use(module: string, imported?: string, alias?: string): Py {
  for (const part of module.split('.')) name(part)
  if (imported === undefined) return raw(module, [{ module, name: null }])
  if (alias === undefined) return raw(name(imported).text, [{ module, name: imported }])
  return raw(name(alias).text, [{ module, name: `${name(imported).text} as ${alias}` }])
}

/** An argument of a call: positional, or by keyword, with a reason that is written beside it. */
export interface Argument {
  readonly keyword?: string
  readonly value: Py
  readonly comment?: string | undefined
}

/** `callee(a, key=b)`. With a comment anywhere each argument has its own line. */
export function call(callee: Py, args: readonly (Argument | undefined)[]): Py {
  const given = args.filter((argument) => argument !== undefined)
  const parts = given.map(
    (argument) => (argument.keyword === undefined ? '' : `${name(argument.keyword).text}=`) + argument.value.text,
  )
  const imports = [...callee.imports, ...given.flatMap((argument) => argument.value.imports)]
  if (!given.some((argument) => argument.comment)) return raw(`${callee.text}(${parts.join(', ')})`, imports)
  const lines = parts.map((part, index) => {
    const text = comment(given[index]?.comment ?? '')
    if (text === '') return `${part},`
    return part.length + text.length + 16 <= lineWidth
      ? `${part},  ${text}`
      : `${commentLines(given[index]?.comment ?? '', lineWidth - 12).join('\n')}\n${part},`
  })
  return raw(`${callee.text}(\n${lines.join('\n')}\n)`, imports)
}

/** Columns of an emitted line. */
export const lineWidth = 120

/** Text in which a `#` could make a later tool obey a user's words: `# noqa`, `# type:`, `# fmt: off`. */
const directive = /#\s*(?=(?:noqa|nosec|type|fmt|yapf|ruff|flake8|isort|pyright|pylint|mypy|pragma)\b)/gi
const leadingDirective =
  /^(?:noqa|nosec|type|fmt|yapf|ruff|flake8|isort|pyright|pylint|mypy|pragma|region|endregion|!|%%)(?![\p{L}\p{N}])/iu

function commentText(text: string): string {
  const line = oneLine(text).replace(directive, '')
  return leadingDirective.test(line) ? `"${line}"` : line
}

/** `# text` on one line, or nothing for an empty text. Never an instruction to a linter or formatter. */
export function comment(text: string): string {
  const line = commentText(text)
  return line === '' ? '' : `# ${line}`
}

/** The same over several lines of at most `width` columns. */
export function commentLines(text: string, width: number): string[] {
  return wrap(commentText(text), width - 2).map((line) => comment(line))
}

/** A docstring. Line breaks stay, backslashes and quotes are escaped, so that `ast.get_docstring` gives the text back. */
export function docstring(text: string): Py {
  const lines = writable(text, 'docstring').split(/\r\n|[\n\r\u2028\u2029]/)
  const body = lines
    .map((line) =>
      codePoints(line.replace(/[ \t]+$/, ''))
        .map(escapeCharacter)
        .join(''),
    )
    .join('\n')
    .replace(/"{2,}|"$/g, (quotes) => '\\"'.repeat(quotes.length))
  return raw(`"""${body}"""`)
}
