/* eslint-disable @typescript-eslint/no-unsafe-class-instance-assignment -- ts-morph's kinds of nodes are interfaces, not subclasses of Node */
/**
 * Where in the user's TypeScript a path of the declaration stands. Loaded only when there is something to say: ts-morph is heavy.
 *
 * The walk is static: it follows object and array literals, constants, imported fragments, spreads (the last wins), helper and factory
 * functions and the constructors of the vocabulary. What it cannot follow (a computed key, `map`, a condition) ends at the nearest
 * ancestor, marked as such. A literal that differs from the value that the program really produced is never called exact.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type ArrayLiteralExpression,
  type ArrowFunction,
  type CallExpression,
  type Expression,
  type FunctionDeclaration,
  type FunctionExpression,
  Node,
  type NumericLiteral,
  type ObjectLiteralElementLike,
  type ObjectLiteralExpression,
  type ParameterDeclaration,
  Project,
  type SourceFile,
  type Symbol as MorphSymbol,
  SyntaxKind,
  ts,
  VariableDeclarationKind,
} from 'ts-morph'
import type { DeclarationPath } from '../finding/finding.ts'
import { type Argument, CONSTRUCTORS } from './constructors.ts'

/** A call of a local function whose body is being read: its parameters stand for the arguments. */
interface Frame {
  readonly callee: LocalFunction
  readonly call: CallExpression
  readonly outer: Scope
}

interface Scope {
  readonly frame: Frame | undefined
  /** The text was reached through a name, so changing it may change other places too. */
  readonly shared: boolean
}

type LocalFunction = ArrowFunction | FunctionDeclaration | FunctionExpression

/** Somewhere in the files that stands for a value of the declaration. */
export interface Place {
  /** The expression of the value; a shorthand property stands for itself. */
  readonly value: Node
  /** The property name, where the value has one. */
  readonly key: Node | undefined
  readonly shared: boolean
}

export interface Found {
  readonly place: Place
  /** How many segments of the path were followed. */
  readonly depth: number
  readonly exact: boolean
}

interface Candidate {
  readonly value: Node
  readonly key: Node | undefined
  readonly scope: Scope
  /** False where something that cannot be read may override this. */
  readonly certain: boolean
}

/** What an expression turned out to be. */
type Shape =
  | { readonly kind: 'object'; readonly node: ObjectLiteralExpression; readonly scope: Scope }
  | { readonly kind: 'array'; readonly node: ArrayLiteralExpression; readonly scope: Scope }
  | { readonly kind: 'constructor'; readonly node: CallExpression; readonly name: string; readonly scope: Scope }
  | { readonly kind: 'assign'; readonly node: CallExpression; readonly scope: Scope }
  | { readonly kind: 'helper'; readonly node: CallExpression; readonly argument: Node; readonly scope: Scope }
  | { readonly kind: 'opaque' }

const PACKAGE = 'vla-pipeline'
const SDK_ENTRY = ['index.ts', 'index.js'].map((name) => join(dirname(dirname(fileURLToPath(import.meta.url))), name))
const ROOT: Scope = { frame: undefined, shared: false }
/** A walk longer than this goes in a circle. */
const MAX_STEPS = 1000

export class PipelineSource {
  readonly entry: SourceFile
  readonly #declaration: unknown
  #steps = 0

  /**
   * @param file absolute path of pipeline.ts
   * @param declaration the value that the file's default export had when it ran
   * @param read text of a file, or `undefined` where it does not exist
   */
  constructor(file: string, declaration: unknown, read: (path: string) => string | undefined = readIfThere) {
    const project = new Project({
      useInMemoryFileSystem: true,
      skipLoadingLibFiles: true,
      compilerOptions: {
        allowJs: true,
        noLib: true,
        types: [],
        target: ts.ScriptTarget.ESNext,
        module: ts.ModuleKind.ESNext,
        moduleResolution: ts.ModuleResolutionKind.Bundler,
        allowImportingTsExtensions: true,
        noEmit: true,
      },
    })
    this.entry = addWithImports(project, file, read)
    this.#declaration = declaration
  }

  /** The best place for a path. Its depth is smaller than the path's length where a part of it is computed. */
  find(path: DeclarationPath): Found {
    this.#steps = 0
    const root = this.#root()
    if (root === undefined) return { place: this.#exportPlace(), depth: 0, exact: false }
    let level: Candidate[] = [root]
    for (const [depth, segment] of path.entries()) {
      const next = level.flatMap((candidate) => this.#step(candidate, segment))
      if (next.length === 0) return this.#choose(level, path.slice(0, depth), false)
      level = next
    }
    return this.#choose(level, path, true)
  }

  /** The object literal into which a property of the value could be written; a constructor's options count. */
  container(found: Found): ObjectLiteralExpression | { call: CallExpression; index: number } | undefined {
    const shapes = this.#expand(found.place.value, ROOT)
    const [shape] = shapes
    if (shapes.length !== 1 || shape === undefined) return undefined
    if (shape.kind === 'object') return shape.scope.shared ? undefined : shape.node
    if (shape.kind !== 'constructor') return undefined
    const signature = CONSTRUCTORS[shape.name] ?? []
    const index = signature.findIndex(takesOptions)
    if (index < 0) return undefined
    const argument = shape.node.getArguments()[index]
    if (argument === undefined) {
      return !shape.scope.shared && shape.node.getArguments().length === index ? { call: shape.node, index } : undefined
    }
    const [options, ...others] = this.#expand(argument, shape.scope)
    return options?.kind === 'object' && others.length === 0 && !options.scope.shared ? options.node : undefined
  }

  #exportPlace(): Place {
    const statement =
      this.entry.getExportAssignment((node) => !node.isExportEquals()) ?? this.entry.getStatements()[0] ?? this.entry
    return { value: statement, key: undefined, shared: false }
  }

  /** The argument of defineVLAPipeline, with the callee as its key: that is where a finding about the whole is shown. */
  #root(): Candidate | undefined {
    const exported = this.entry.getDefaultExportSymbol()
    const declaration = exported === undefined ? undefined : definitions(exported)[0]
    if (declaration === undefined) return undefined
    const expression = Node.isExportAssignment(declaration) ? declaration.getExpression() : initializerOf(declaration)
    if (expression === undefined) return undefined
    for (const shape of this.#expand(expression, ROOT)) {
      if (shape.kind !== 'constructor' || shape.name !== 'defineVLAPipeline') continue
      return {
        value: shape.node,
        key: shape.node.getExpression(),
        scope: { ...shape.scope, shared: false },
        certain: true,
      }
    }
    return undefined
  }

  #step(from: Candidate, segment: string | number): Candidate[] {
    if (this.#steps++ > MAX_STEPS) return []
    return this.#expand(from.value, from.scope).flatMap((shape) =>
      this.#member(shape, segment).map((candidate) => ({ ...candidate, certain: candidate.certain && from.certain })),
    )
  }

  #member(shape: Shape, segment: string | number): Candidate[] {
    switch (shape.kind) {
      case 'object':
        return typeof segment === 'string' ? this.#property(shape.node, segment, shape.scope).candidates : []
      case 'array':
        return typeof segment === 'number' ? this.#element(shape.node, segment, shape.scope) : []
      case 'constructor':
        return typeof segment === 'string' ? this.#argument(shape.node, shape.name, segment, shape.scope) : []
      case 'assign':
        return typeof segment === 'string'
          ? this.#lastWins(shape.node.getArguments(), segment, shape.scope).candidates
          : []
      case 'helper':
        return this.#expand(shape.argument, shape.scope).flatMap((inner) =>
          inner.kind === 'helper'
            ? []
            : this.#member(inner, segment).map((candidate) => ({ ...candidate, certain: false })),
        )
      case 'opaque':
        return []
    }
  }

  #property(node: ObjectLiteralExpression, name: string, scope: Scope): { candidates: Candidate[]; opaque: boolean } {
    let opaque = false
    const all: Candidate[] = []
    for (const property of [...node.getProperties()].reverse()) {
      if (Node.isSpreadAssignment(property)) {
        const inner = this.#spread(property.getExpression(), name, scope)
        const certain = !opaque
        if (inner.candidates.length > 0)
          all.push(...inner.candidates.map((c) => ({ ...c, certain: c.certain && certain })))
        if (inner.candidates.length > 0 && !inner.opaque) return { candidates: all, opaque }
        opaque ||= inner.opaque
        continue
      }
      const key = this.#nameOf(property, scope)
      if (key === undefined) opaque = true
      if (key !== name) continue
      const value = Node.isPropertyAssignment(property) ? property.getInitializerOrThrow() : property
      all.push({ value, key: property.getNameNode(), scope, certain: !opaque })
      return { candidates: all, opaque }
    }
    return { candidates: all, opaque }
  }

  #spread(expression: Node, name: string, scope: Scope): { candidates: Candidate[]; opaque: boolean } {
    const shapes = this.#expand(expression, scope)
    const results = shapes.map((shape) => this.#overlay(shape, name))
    const missing = results.some((result) => result.candidates.length === 0)
    return {
      candidates: results.flatMap((result) =>
        result.candidates.map((c) => ({ ...c, certain: c.certain && shapes.length === 1 })),
      ),
      // One branch of a condition without the key lets what stands before the spread through.
      opaque: results.some((result) => result.opaque) || (missing && shapes.length > 1),
    }
  }

  #overlay(shape: Shape, name: string): { candidates: Candidate[]; opaque: boolean } {
    switch (shape.kind) {
      case 'object':
        return this.#property(shape.node, name, shape.scope)
      case 'assign':
        return this.#lastWins(shape.node.getArguments(), name, shape.scope)
      case 'constructor':
        return { candidates: this.#argument(shape.node, shape.name, name, shape.scope), opaque: false }
      case 'array':
        return { candidates: [], opaque: false }
      case 'helper':
        return { candidates: this.#member(shape, name), opaque: true }
      case 'opaque':
        return { candidates: [], opaque: true }
    }
  }

  /** `Object.assign(a, b)` reads like `{ ...a, ...b }`. */
  #lastWins(parts: readonly Node[], name: string, scope: Scope): { candidates: Candidate[]; opaque: boolean } {
    let opaque = false
    for (const part of [...parts].reverse()) {
      const inner = this.#spread(part, name, scope)
      if (inner.candidates.length > 0) {
        return {
          candidates: inner.candidates.map((c) => ({ ...c, certain: c.certain && !opaque })),
          opaque: opaque || inner.opaque,
        }
      }
      opaque ||= inner.opaque
    }
    return { candidates: [], opaque }
  }

  #element(node: ArrayLiteralExpression, index: number, scope: Scope): Candidate[] {
    let passed = 0
    for (const element of node.getElements()) {
      if (!Node.isSpreadElement(element)) {
        if (passed === index) return [{ value: element, key: undefined, scope, certain: true }]
        passed += 1
        continue
      }
      const [shape, ...others] = this.#expand(element.getExpression(), scope)
      if (shape?.kind !== 'array' || others.length > 0) return []
      const length = this.#length(shape.node, shape.scope)
      if (length === undefined) return []
      if (index < passed + length) return this.#element(shape.node, index - passed, shape.scope)
      passed += length
    }
    return []
  }

  #length(node: ArrayLiteralExpression, scope: Scope): number | undefined {
    let length = 0
    for (const element of node.getElements()) {
      if (!Node.isSpreadElement(element)) {
        length += 1
        continue
      }
      const [shape, ...others] = this.#expand(element.getExpression(), scope)
      const inner = shape?.kind === 'array' && others.length === 0 ? this.#length(shape.node, shape.scope) : undefined
      if (inner === undefined) return undefined
      length += inner
    }
    return length
  }

  #argument(call: CallExpression, name: string, field: string, scope: Scope): Candidate[] {
    const callee = call.getExpression()
    // The name says the kind; whoever changes it changes the whole value, which is for no edit to do.
    if (field === 'kind') return [{ value: callee, key: callee, scope: { ...scope, shared: true }, certain: true }]
    const signature: readonly Argument[] = CONSTRUCTORS[name] ?? []
    const candidates: Candidate[] = []
    for (const [index, argument] of call.getArguments().entries()) {
      const holds = signature[index]
      if (holds === undefined) continue
      if (holds === field) return [{ value: argument, key: undefined, scope, certain: true }]
      if (typeof holds !== 'string' && holds[0] === field && !this.#isObject(argument, scope)) {
        return [{ value: argument, key: undefined, scope, certain: true }]
      }
      if (takesOptions(holds)) candidates.push(...this.#spread(argument, field, scope).candidates)
    }
    return candidates
  }

  #isObject(node: Node, scope: Scope): boolean {
    return this.#expand(node, scope).some((shape) => shape.kind !== 'opaque')
  }

  /** Follows names, calls and conditions until something with members stands there. */
  #expand(node: Node, scope: Scope): Shape[] {
    if (this.#steps++ > MAX_STEPS) return [{ kind: 'opaque' }]
    const inner = unwrap(node)
    if (Node.isObjectLiteralExpression(inner)) return [{ kind: 'object', node: inner, scope }]
    if (Node.isArrayLiteralExpression(inner)) return [{ kind: 'array', node: inner, scope }]
    if (Node.isConditionalExpression(inner)) {
      return [inner.getWhenTrue(), inner.getWhenFalse()].flatMap((branch) => this.#expand(branch, scope))
    }
    if (Node.isBinaryExpression(inner)) {
      const operator = inner.getOperatorToken().getText()
      // `...(condition && { ... })`: there, or nothing.
      if (operator === '&&') return [...this.#expand(inner.getRight(), scope), { kind: 'opaque' }]
      if (operator === '??' || operator === '||')
        return [inner.getLeft(), inner.getRight()].flatMap((side) => this.#expand(side, scope))
    }
    if (Node.isIdentifier(inner) || Node.isShorthandPropertyAssignment(inner)) {
      const target = this.#follow(inner, scope)
      return target === undefined ? [{ kind: 'opaque' }] : this.#expand(target.value, target.scope)
    }
    if (Node.isPropertyAccessExpression(inner)) return this.#access(inner.getExpression(), inner.getName(), scope)
    if (Node.isElementAccessExpression(inner)) {
      const argument = inner.getArgumentExpression()
      const key = argument === undefined ? undefined : literalValue(argument)?.value
      return typeof key === 'string' || typeof key === 'number'
        ? this.#access(inner.getExpression(), key, scope)
        : [{ kind: 'opaque' }]
    }
    if (Node.isCallExpression(inner)) return this.#call(inner, scope)
    return [{ kind: 'opaque' }]
  }

  #access(base: Expression, name: string | number, scope: Scope): Shape[] {
    const shapes = this.#expand(base, scope)
    const members = shapes.flatMap((shape) => this.#member(shape, name))
    if (members.length === 0) return [{ kind: 'opaque' }]
    return members.flatMap((member) =>
      member.certain ? this.#expand(member.value, { ...member.scope, shared: true }) : [{ kind: 'opaque' } as const],
    )
  }

  #call(call: CallExpression, scope: Scope): Shape[] {
    const callee = unwrap(call.getExpression())
    const text = callee.getText()
    const first = call.getArguments()[0]
    if (text === 'Object.assign') return [{ kind: 'assign', node: call, scope }]
    if ((text === 'Object.freeze' || text === 'structuredClone') && first !== undefined)
      return this.#expand(first, scope)
    const name = constructorName(callee)
    if (name !== undefined) return [{ kind: 'constructor', node: call, name, scope }]
    const callable = this.#callable(callee, scope)
    const returned = callable === undefined ? undefined : returnedExpression(callable)
    if (callable !== undefined && returned !== undefined) {
      return this.#expand(returned, { frame: { callee: callable, call, outer: scope }, shared: true })
    }
    // An unknown helper with a single object: most likely it hands the object on. Only a literal that agrees makes it exact.
    if (
      callable === undefined &&
      first !== undefined &&
      call.getArguments().length === 1 &&
      Node.isObjectLiteralExpression(unwrap(first))
    ) {
      return [{ kind: 'helper', node: call, argument: first, scope }]
    }
    return [{ kind: 'opaque' }]
  }

  #callable(callee: Node, scope: Scope): LocalFunction | undefined {
    if (isFunction(callee)) return callee
    if (!Node.isIdentifier(callee)) return undefined
    const symbol = callee.getSymbol()
    for (const definition of symbol === undefined ? [] : definitions(symbol)) {
      if (Node.isFunctionDeclaration(definition)) return definition
      const value = initializerOf(definition)
      const inner = value === undefined ? undefined : unwrap(value)
      if (inner !== undefined && isFunction(inner)) return inner
      if (inner !== undefined && Node.isIdentifier(inner) && this.#steps++ < MAX_STEPS)
        return this.#callable(inner, scope)
    }
    return undefined
  }

  /** What a name stands for: the initializer of a constant, the argument of a parameter. */
  #follow(node: Node, scope: Scope): { value: Node; scope: Scope } | undefined {
    if (this.#steps++ > MAX_STEPS) return undefined
    const symbol = Node.isShorthandPropertyAssignment(node) ? node.getValueSymbol() : node.getSymbol()
    for (const definition of symbol === undefined ? [] : definitions(symbol)) {
      if (Node.isParameterDeclaration(definition)) return this.#parameter(definition, scope)
      if (Node.isBindingElement(definition)) return this.#binding(definition, scope)
      const value = initializerOf(definition)
      if (value !== undefined) {
        return {
          value,
          scope: { frame: frameAround(value, scope.frame), shared: scope.shared || !usedOnce(definition) },
        }
      }
    }
    return undefined
  }

  #parameter(parameter: ParameterDeclaration, scope: Scope): { value: Node; scope: Scope } | undefined {
    const frame = frameAround(parameter, scope.frame)
    if (frame === undefined) return undefined
    const index = frame.callee.getParameters().indexOf(parameter)
    const argument = index < 0 || parameter.isRestParameter() ? undefined : frame.call.getArguments()[index]
    if (argument !== undefined) return { value: argument, scope: frame.outer }
    const fallback = parameter.getInitializer()
    return fallback === undefined ? undefined : { value: fallback, scope: { frame, shared: true } }
  }

  /** `const { a: { b } } = shared` and `({ lr }) => ...`: the pattern is a path into what is taken apart. */
  #binding(element: Node, scope: Scope): { value: Node; scope: Scope } | undefined {
    const path: (string | number)[] = []
    let current: Node | undefined = element
    while (current !== undefined && Node.isBindingElement(current)) {
      if (current.getDotDotDotToken() !== undefined || current.getInitializer() !== undefined) return undefined
      const pattern: Node = current.getParentOrThrow()
      if (Node.isArrayBindingPattern(pattern)) path.unshift(pattern.getElements().indexOf(current))
      else path.unshift((current.getPropertyNameNode() ?? current.getNameNode()).getText())
      current = pattern.getParent()
    }
    const source: { value: Node; scope: Scope } | undefined =
      current !== undefined && Node.isParameterDeclaration(current)
        ? this.#parameter(current, scope)
        : current !== undefined && Node.isVariableDeclaration(current) && current.getInitializer() !== undefined
          ? {
              value: current.getInitializerOrThrow(),
              scope: { frame: frameAround(current, scope.frame), shared: true },
            }
          : undefined
    if (source === undefined) return undefined
    let level: Candidate[] = [{ ...source, key: undefined, certain: true }]
    for (const segment of path) level = level.flatMap((candidate) => this.#step(candidate, segment))
    const [only, ...others] = level
    return only === undefined || others.length > 0 || !only.certain
      ? undefined
      : { value: only.value, scope: only.scope }
  }

  #nameOf(property: ObjectLiteralElementLike, scope: Scope): string | undefined {
    if (Node.isSpreadAssignment(property)) return undefined
    const name = property.getNameNode()
    if (!Node.isComputedPropertyName(name)) {
      return Node.isStringLiteral(name) || Node.isNoSubstitutionTemplateLiteral(name) || Node.isNumericLiteral(name)
        ? String(name.getLiteralValue())
        : name.getText()
    }
    const literal = this.#literal(name.getExpression(), scope)
    return literal === undefined ? undefined : String(literal.value)
  }

  /** The literal that an expression stands for, through names and parameters. */
  #literal(node: Node, scope: Scope): { value: unknown } | undefined {
    const inner = unwrap(node)
    const own = literalValue(inner)
    if (own !== undefined) return own
    if (!Node.isIdentifier(inner) && !Node.isShorthandPropertyAssignment(inner)) return undefined
    const target = this.#follow(inner, scope)
    return target === undefined ? undefined : this.#literal(target.value, target.scope)
  }

  #choose(candidates: readonly Candidate[], path: DeclarationPath, complete: boolean): Found {
    const runtime = valueAt(this.#declaration, path)
    const judged = candidates.map((candidate) => {
      const literal = this.#literal(candidate.value, candidate.scope)
      const agrees = literal === undefined ? undefined : Object.is(literal.value, runtime)
      return { candidate, agrees }
    })
    const agreeing = judged.filter((entry) => entry.agrees === true)
    const open = judged.filter((entry) => entry.agrees === undefined)
    const [best] = agreeing.length > 0 ? agreeing : open.length > 0 ? open : judged
    if (best === undefined) return { place: this.#exportPlace(), depth: 0, exact: false }
    const unique = agreeing.length === 1 || (agreeing.length === 0 && open.length === 1 && best.candidate.certain)
    return { place: this.#atArgument(best.candidate), depth: path.length, exact: complete && unique }
  }

  /** Of a factory's parameter the argument (or its default) is shown, not the line in the factory that all calls share. */
  #atArgument(candidate: Candidate): Place {
    const { value, key, scope } = candidate
    const inner = unwrap(value)
    if (scope.frame !== undefined && (Node.isIdentifier(inner) || Node.isShorthandPropertyAssignment(inner))) {
      const target = this.#follow(inner, scope)
      const { callee, call } = scope.frame
      const isDefault = callee.getParameters().some((parameter) => parameter.getInitializer() === target?.value)
      const isArgument = target?.scope.frame !== scope.frame && target !== undefined && isArgumentOf(target.value, call)
      if (target !== undefined && (isDefault || isArgument)) {
        return this.#atArgument({
          value: target.value,
          key: propertyNameOf(target.value),
          scope: target.scope,
          certain: true,
        })
      }
    }
    return { value, key, shared: scope.shared }
  }
}

function readIfThere(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined
}

/** Adds a file and every local file that it imports, so that names can be followed; packages are not read. */
function addWithImports(project: Project, file: string, read: (path: string) => string | undefined): SourceFile {
  const text = read(file)
  if (text === undefined) throw new Error(`cannot read ${file}`)
  const entry = project.createSourceFile(file, withOffsets(text), { overwrite: true })
  const waiting = [{ source: entry, path: file }]
  const seen = new Set([file])
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const specifiers = [...next.source.getImportDeclarations(), ...next.source.getExportDeclarations()]
      .map((declaration) => declaration.getModuleSpecifierValue())
      .filter((specifier): specifier is string => specifier?.startsWith('.') === true)
    for (const specifier of specifiers) {
      const base = join(dirname(next.path), specifier)
      const path = candidatesOf(base).find(
        (candidate) => !SDK_ENTRY.includes(candidate) && !isFolder(candidate) && read(candidate) !== undefined,
      )
      if (path === undefined || seen.has(path)) continue
      seen.add(path)
      const source = project.createSourceFile(path, withOffsets(read(path) ?? ''), { overwrite: true })
      waiting.push({ source, path })
    }
  }
  return entry
}

/** ts-morph drops a byte order mark, and every offset would be one less than in the file. */
function withOffsets(text: string): string {
  return text.replace(/^\ufeff/, ' ')
}

function isFolder(path: string): boolean {
  return !/\.[cm]?[jt]s$/.test(path)
}

function candidatesOf(base: string): string[] {
  if (SDK_ENTRY.includes(base)) return []
  const bare = base.replace(/\.([cm]?)js$/, '.$1ts')
  return [
    base,
    bare,
    `${base}.ts`,
    `${base}.mts`,
    `${base}.js`,
    `${base}.mjs`,
    join(base, 'index.ts'),
    join(base, 'index.js'),
  ]
}

function isFunction(node: Node): node is LocalFunction {
  return Node.isArrowFunction(node) || Node.isFunctionExpression(node) || Node.isFunctionDeclaration(node)
}

function unwrap(node: Node): Node {
  let inner = node
  while (
    Node.isParenthesizedExpression(inner) ||
    Node.isAsExpression(inner) ||
    Node.isSatisfiesExpression(inner) ||
    Node.isNonNullExpression(inner) ||
    Node.isTypeAssertion(inner) ||
    Node.isAwaitExpression(inner)
  ) {
    inner = inner.getExpression()
  }
  return inner
}

function definitions(symbol: MorphSymbol): Node[] {
  const target = symbol.isAlias() ? symbol.getAliasedSymbol() : symbol
  return target?.getDeclarations() ?? []
}

/** Only what cannot change is followed: a `let` may have been assigned again. */
function initializerOf(definition: Node): Expression | undefined {
  if (Node.isVariableDeclaration(definition)) {
    const isConst = definition.getVariableStatement()?.getDeclarationKind() === VariableDeclarationKind.Const
    return isConst ? definition.getInitializer() : undefined
  }
  return Node.isExportAssignment(definition) ? definition.getExpression() : undefined
}

/** Whether a local constant is named at one other place only, so that its text stands for that place alone. */
function usedOnce(definition: Node): boolean {
  if (!Node.isVariableDeclaration(definition) || definition.isExported()) return false
  const name = definition.getName()
  const uses = definition
    .getSourceFile()
    .getDescendantsOfKind(SyntaxKind.Identifier)
    .filter((identifier) => identifier.getText() === name && identifier !== definition.getNameNode())
  return uses.length === 1
}

/** The frame of the innermost function being read that encloses a node. */
function frameAround(node: Node, frame: Frame | undefined): Frame | undefined {
  for (let candidate = frame; candidate !== undefined; candidate = candidate.outer.frame) {
    if (node.getFirstAncestor((ancestor) => ancestor === candidate.callee) !== undefined) return candidate
  }
  return undefined
}

function returnedExpression(callable: LocalFunction): Node | undefined {
  const body = callable.getBody()
  if (body === undefined) return undefined
  if (!Node.isBlock(body)) return body
  const returns = body
    .getDescendantsOfKind(SyntaxKind.ReturnStatement)
    .filter(
      (statement) =>
        statement.getFirstAncestor((ancestor) => isFunction(ancestor) || Node.isMethodDeclaration(ancestor)) ===
        callable,
    )
  return returns.length === 1 ? returns[0]?.getExpression() : undefined
}

/** The vocabulary's own name of a called function, whatever the file calls it; undefined for anything else. */
function constructorName(callee: Node): string | undefined {
  if (Node.isPropertyAccessExpression(callee)) {
    const namespace = callee.getExpression()
    const isOurs = Node.isIdentifier(namespace) && importOf(namespace)?.kind === 'namespace'
    return isOurs && Object.hasOwn(CONSTRUCTORS, callee.getName()) ? callee.getName() : undefined
  }
  if (!Node.isIdentifier(callee)) return undefined
  const imported = importOf(callee)
  return imported?.kind === 'named' && Object.hasOwn(CONSTRUCTORS, imported.name) ? imported.name : undefined
}

function importOf(identifier: Node): { kind: 'named'; name: string } | { kind: 'namespace' } | undefined {
  for (const declaration of identifier.getSymbol()?.getDeclarations() ?? []) {
    const statement = declaration.getFirstAncestorByKind(SyntaxKind.ImportDeclaration)
    if (statement === undefined || !isOurPackage(statement.getModuleSpecifierValue(), declaration.getSourceFile()))
      continue
    if (Node.isImportSpecifier(declaration)) return { kind: 'named', name: declaration.getName() }
    if (Node.isNamespaceImport(declaration)) return { kind: 'namespace' }
  }
  return undefined
}

function isOurPackage(specifier: string, file: SourceFile): boolean {
  return (
    specifier === PACKAGE ||
    (specifier.startsWith('.') && SDK_ENTRY.includes(join(dirname(file.getFilePath()), specifier)))
  )
}

function takesOptions(argument: Argument): boolean {
  return argument === '*' || typeof argument !== 'string'
}

function literalValue(node: Node): { value: unknown } | undefined {
  if (Node.isStringLiteral(node) || Node.isNoSubstitutionTemplateLiteral(node)) return { value: node.getLiteralValue() }
  if (Node.isNumericLiteral(node)) return { value: numberOf(node) }
  if (Node.isTrueLiteral(node)) return { value: true }
  if (Node.isFalseLiteral(node)) return { value: false }
  if (Node.isNullLiteral(node)) return { value: null }
  if (Node.isPrefixUnaryExpression(node) && node.getText().startsWith('-')) {
    const operand = node.getOperand()
    return Node.isNumericLiteral(operand) ? { value: -numberOf(operand) } : undefined
  }
  return undefined
}

/** ts-morph's own reading takes `1e-9`, in which the compiler leaves no point, for the whole number 1. */
function numberOf(literal: NumericLiteral): number {
  return Number(literal.compilerNode.text)
}

function isArgumentOf(node: Node, call: CallExpression): boolean {
  return call
    .getArguments()
    .some((argument) => argument === node || node.getFirstAncestor((ancestor) => ancestor === argument) !== undefined)
}

function propertyNameOf(value: Node): Node | undefined {
  const parent = value.getParent()
  return Node.isPropertyAssignment(parent) && parent.getInitializer() === value ? parent.getNameNode() : undefined
}

/** The value of a path in a plain object; undefined where it does not exist. */
function valueAt(root: unknown, path: DeclarationPath): unknown {
  let value = root
  for (const segment of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<string | number, unknown>)[segment]
  }
  return value
}
