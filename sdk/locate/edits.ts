/* eslint-disable @typescript-eslint/no-unsafe-class-instance-assignment -- ts-morph's kinds of nodes are interfaces, not subclasses of Node */
/**
 * Turns the edits of a fix, which speak of paths of the declaration, into edits of the user's text.
 *
 * An edit is made only where the text stands for that one value: a constant or a factory that serves several places is left to a person.
 */
import { type CallExpression, Node, type ObjectLiteralExpression, type SourceFile, SyntaxKind } from 'ts-morph'
import type { DeclarationEdit, DeclarationPath } from '../finding/finding.ts'
import { CONSTRUCTOR_OF_KIND, CONSTRUCTORS } from './constructors.ts'
import type { TextEdit } from './diagnostic.ts'
import type { Found, PipelineSource } from './source.ts'

/** @returns `null` where one of the edits has no place of its own in the text, or two change the same text. */
export function textEditsOf(
  edits: readonly DeclarationEdit[],
  source: PipelineSource,
  nameOf: (file: SourceFile) => string,
): TextEdit[] | null {
  const at: At = (node, start, end, text) => ({ file: nameOf(node.getSourceFile()), start, end, text })
  const removed: Node[] = []
  for (const edit of edits) {
    if (edit.kind !== 'remove') continue
    const owner = removable(source.find(edit.path))
    if (owner === undefined) return null
    removed.push(owner)
  }
  const result: TextEdit[] = []
  for (const edit of edits) {
    const made =
      edit.kind === 'set' ? set(edit, source, removed, at) : edit.kind === 'renameKey' ? rename(edit, source, at) : []
    if (made === null) return null
    result.push(...made)
  }
  const cuts = removed.map((owner) => at(owner, ...removal(owner, removed), ''))
  return withoutOverlap([...result, ...joined(cuts)])
}

type At = (node: Node, start: number, end: number, text: string) => TextEdit

function rename(edit: DeclarationEdit & { kind: 'renameKey' }, source: PipelineSource, at: At): TextEdit[] | null {
  const { exact, place } = source.find(edit.path)
  const { key } = place
  if (!exact || place.shared || key === undefined) return null
  const name = propertyName(edit.to)
  const owner = key.getParent()
  const text = Node.isShorthandPropertyAssignment(owner) ? `${name}: ${key.getText()}` : name
  return [at(key, key.getStart(), key.getEnd(), text)]
}

/** @param removed what the other edits cut; a property that takes the place of one of them takes it from the list */
function set(
  edit: DeclarationEdit & { kind: 'set' },
  source: PipelineSource,
  removed: Node[],
  at: At,
): TextEdit[] | null {
  const found = source.find(edit.path)
  const printed = print(edit.value)
  if (found.place.shared) return null
  if (found.depth === edit.path.length) {
    if (!found.exact) return null
    const { value } = found.place
    const text = Node.isShorthandPropertyAssignment(value) ? `${value.getName()}: ${printed.text}` : printed.text
    const imports = importEdits(value.getSourceFile(), printed.constructors, at)
    return imports === null ? null : [at(value, value.getStart(), value.getEnd(), text), ...imports]
  }
  const insertion = insert(found, edit.path, printed.text, source, removed)
  if (insertion === null) return null
  const imports = importEdits(insertion.node.getSourceFile(), printed.constructors, at)
  return imports === null
    ? null
    : [...insertion.spans.map((span) => at(insertion.node, span.start, span.end, span.text)), ...imports]
}

/** Cuts that touch are one: of two neighbours both would take the comma between them. */
function joined(cuts: readonly TextEdit[]): TextEdit[] {
  const result: TextEdit[] = []
  for (const cut of [...cuts].sort((a, b) => compareText(a.file, b.file) || a.start - b.start)) {
    const last = result.at(-1)
    if (last?.file === cut.file && cut.start <= last.end)
      result[result.length - 1] = { ...last, end: Math.max(last.end, cut.end) }
    else result.push(cut)
  }
  return result
}

/** Several insertions at one place stand one after the other, the same one once; anything else that meets is refused. */
function withoutOverlap(edits: readonly TextEdit[]): TextEdit[] | null {
  const own = [...new Map(edits.map((edit) => [JSON.stringify(edit), edit])).values()]
  const meets = own.some((a, index) =>
    own.slice(index + 1).some((b) => a.file === b.file && a.start < b.end && b.start < a.end),
  )
  return meets ? null : own
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

interface Span {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Writes what is missing of the path into the nearest object: `vision.lr` becomes `vision: { lr: … }` where there is no `vision`. */
function insert(
  found: Found,
  path: DeclarationPath,
  text: string,
  source: PipelineSource,
  removed: Node[],
): { node: Node; spans: Span[] } | null {
  const rest = path.slice(found.depth)
  if (rest.some((segment) => typeof segment === 'number')) return null
  const [first, ...inner] = rest as string[]
  if (first === undefined) return null
  const value = inner.reduceRight((nested, key) => `{ ${propertyName(key)}: ${nested} }`, text)
  const property = `${propertyName(first)}: ${value}`
  const container = source.container(found)
  if (container === undefined) return null
  if (!Node.isNode(container)) return { node: container.call, spans: [newArgument(container.call, property)] }
  const replaced = removed.findIndex((owner) => owner.getParent() === container)
  const [owner] = replaced < 0 ? [] : removed.splice(replaced, 1)
  if (owner !== undefined)
    return { node: container, spans: [{ start: owner.getStart(), end: owner.getEnd(), text: property }] }
  return { node: container, spans: newProperty(container, property) }
}

function newArgument(call: CallExpression, property: string): Span {
  const last = call.getArguments().at(-1)
  const position = last?.getEnd() ?? call.getEnd() - 1
  return { start: position, end: position, text: `${last === undefined ? '' : ', '}{ ${property} }` }
}

function newProperty(object: ObjectLiteralExpression, property: string): Span[] {
  const last = object.getProperties().at(-1)
  if (last === undefined) {
    const inside = object.getStart() + 1
    const isEmpty = object.getText().slice(1, -1).trim() === ''
    return isEmpty
      ? [{ start: inside - 1, end: object.getEnd(), text: `{ ${property} }` }]
      : [{ start: inside, end: inside, text: ` ${property},` }]
  }
  const onOwnLine = object.getStartLineNumber() !== last.getStartLineNumber()
  const source = object.getSourceFile().getFullText()
  const comma = last.getNextSiblingIfKind(SyntaxKind.CommaToken)
  if (!onOwnLine) return [{ start: last.getEnd(), end: last.getEnd(), text: `, ${property}` }]
  const indent = indentation(source, last.getStart())
  const after = comma?.getEnd() ?? last.getEnd()
  const lineEnd = endOfLine(source, after)
  // A comment that ends the line stays with the property it speaks of.
  const isQuiet = /^\s*(\/\/.*|\/\*.*\*\/\s*)?$/.test(source.slice(after, lineEnd))
  const position = isQuiet ? lineEnd : after
  const newline = source.startsWith('\r\n', lineEnd) ? '\r\n' : '\n'
  const line: Span = { start: position, end: position, text: `${newline}${indent}${property},` }
  // The comma is an edit of its own, so that two properties that are added share it.
  return comma === undefined ? [{ start: last.getEnd(), end: last.getEnd(), text: ',' }, line] : [line]
}

/** The property or the array element of a value; undefined where its text does not stand for it alone. */
function removable(found: Found): Node | undefined {
  const { key, value, shared } = found.place
  const owner = key === undefined ? value : key.getParent()
  const parent = owner?.getParent()
  if (!found.exact || shared) return undefined
  return Node.isObjectLiteralExpression(parent) || Node.isArrayLiteralExpression(parent) ? owner : undefined
}

/**
 * What to cut so that a property or an array element goes, with its comma and, where it has its own lines, those lines.
 *
 * @param removed all that go
 */
function removal(owner: Node, removed: readonly Node[]): [start: number, end: number] {
  const source = owner.getSourceFile().getFullText()
  const comma = owner.getNextSiblingIfKind(SyntaxKind.CommaToken)
  const start = owner.getStart()
  const end = comma?.getEnd() ?? owner.getEnd()
  const lineStart = source.lastIndexOf('\n', start - 1) + 1
  const lineEnd = endOfLine(source, end)
  const alone = source.slice(lineStart, start).trim() === '' && /^\s*(\/\/.*)?$/.test(source.slice(end, lineEnd))
  if (alone && lineStart > 0) return [lineStart, source.indexOf('\n', end) + 1 || source.length]
  const before = owner.getPreviousSiblingIfKind(SyntaxKind.CommaToken)
  const isLast = owner
    .getNextSiblings()
    .every((node) => node.getKind() === SyntaxKind.CommaToken || removed.includes(node))
  // The comma before the last one goes with it, unless a comment stands between; one at the very end stays.
  if (isLast && before !== undefined && source.slice(before.getEnd(), start).trim() === '')
    return [before.getStart(), owner.getEnd()]
  const spaces = /^ */.exec(source.slice(end))?.[0].length ?? 0
  return comma === undefined ? [start, end] : [start, end + spaces]
}

/** Adds names to the file's import from the package; null where it imports nothing from it by name. */
function importEdits(
  file: SourceFile,
  names: ReadonlySet<string>,
  at: (node: Node, start: number, end: number, text: string) => TextEdit,
): TextEdit[] | null {
  if (names.size === 0) return []
  const named = file
    .getImportDeclarations()
    .flatMap((declaration) => (declaration.isTypeOnly() ? [] : declaration.getNamedImports()))
  const present = new Set(named.map((specifier) => specifier.getName()))
  const aliased = named.some((specifier) => names.has(specifier.getName()) && specifier.getAliasNode() !== undefined)
  const anchor =
    named.find((specifier) => specifier.getName() === 'defineVLAPipeline') ??
    named.find((s) => Object.hasOwn(CONSTRUCTORS, s.getName()))
  if (anchor === undefined || aliased) return null
  const missing = [...names].filter((name) => !present.has(name)).sort()
  if (missing.length === 0) return []
  return [at(anchor, anchor.getEnd(), anchor.getEnd(), missing.map((name) => `, ${name}`).join(''))]
}

function endOfLine(source: string, from: number): number {
  const newline = source.indexOf('\n', from)
  const end = newline < 0 ? source.length : newline
  return source[end - 1] === '\r' ? end - 1 : end
}

function indentation(source: string, position: number): string {
  const lineStart = source.lastIndexOf('\n', position - 1) + 1
  return /^[ \t]*/.exec(source.slice(lineStart, position))?.[0] ?? ''
}

/** Prints a value of the declaration as one would write it: constructors by name, single quotes, 50_000. */
export function print(value: unknown): { text: string; constructors: Set<string> } {
  const constructors = new Set<string>()
  return { text: printed(value, constructors), constructors }
}

function printed(value: unknown, constructors: Set<string>): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return printedNumber(value)
  if (value === null || typeof value !== 'object') return String(value)
  if (Array.isArray(value)) return `[${value.map((item) => printed(item, constructors)).join(', ')}]`
  const { kind, ...fields } = value as Record<string, unknown>
  const name = typeof kind === 'string' ? (CONSTRUCTOR_OF_KIND[kind] ?? kind) : undefined
  const signature = name === undefined ? undefined : CONSTRUCTORS[name]
  if (name === undefined || signature === undefined)
    return printedObject(value as Record<string, unknown>, constructors)
  constructors.add(name)
  const left = { ...fields }
  const args: string[] = []
  for (const argument of signature) {
    const field = typeof argument === 'string' ? argument : argument[0]
    if (field === '*') continue
    if (!(field in left)) continue
    args.push(printed(left[field], constructors))
    Reflect.deleteProperty(left, field)
  }
  if (Object.keys(left).length > 0) args.push(printedObject(left, constructors))
  return `${name}(${args.join(', ')})`
}

function printedObject(value: Record<string, unknown>, constructors: Set<string>): string {
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  if (entries.length === 0) return '{}'
  return `{ ${entries.map(([key, item]) => `${propertyName(key)}: ${printed(item, constructors)}`).join(', ')} }`
}

function printedNumber(value: number): string {
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential()
  if (!Number.isInteger(value) || Math.abs(value) < 1000 || !Number.isSafeInteger(value)) return String(value)
  return String(value).replace(/\B(?=(\d{3})+$)/g, '_')
}

function quoted(text: string): string {
  const json = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")
  return `'${json}'`
}

function propertyName(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) && name !== '__proto__' ? name : quoted(name)
}
