/** Every place of the vocabulary where a user writes an object: the options of each constructor, and what is nested in them. */
import path from 'node:path'
import { ts, type Project } from 'ts-morph'

import { makeProject, root } from './project.ts'

/** One key of an object that a user writes. */
export interface Key {
  readonly name: string
  readonly optional: boolean
  readonly isNumber: boolean
  /** String literals that the value, or an element of it, may be. */
  readonly literals: readonly string[]
  readonly isList: boolean
}

/** Somewhere between two braces. */
export interface Place {
  /** `fsdp2`, `defineVLAPipeline.training` */
  readonly label: string
  readonly before: string
  readonly after: string
  readonly keys: readonly Key[]
}

interface Walk {
  readonly checker: ts.TypeChecker
  readonly at: ts.Node
  readonly places: Map<string, Place>
}

const pipeline = `vla.defineVLAPipeline({ model: vla.openvla({ weights: 'x' }), hardware: vla.gpus('L4'), `

/** What hides behind generic parameters, by the type whose keys stand there. */
const GENERIC: readonly (Omit<Place, 'keys'> & { readonly type: string })[] = [
  {
    label: 'defineVLAPipeline.modules.language',
    before: `${pipeline}modules: { language: { `,
    after: ' } } })',
    type: 'ModuleOptions',
  },
  { label: 'flowMatching', before: 'vla.flowMatching({ ', after: ' })', type: 'CrossFlowOptions' },
  {
    label: 'flowMatching, joint',
    before: `vla.flowMatching({ attention: 'joint', `,
    after: ' })',
    type: 'JointFlowOptions',
  },
  { label: 'defineVLAPipeline.data[0]', before: `${pipeline}data: [{ `, after: ' }] })', type: 'MixtureEntry' },
  { label: 'defineVLAPipeline.normalize', before: `${pipeline}normalize: { `, after: ' } })', type: 'Normalize' },
  {
    label: 'lerobotPolicy.modules.trunk',
    before: `vla.lerobotPolicy({ type: 'x', cameras: ['a'], chunk: 1, modules: { trunk: { `,
    after: ' } } })',
    type: 'ModulePatterns',
  },
]

/** All places, from the types of what `vla-pipeline` exports. */
export function vocabulary(): {
  readonly places: readonly Place[]
  readonly functions: readonly ts.Symbol[]
  readonly project: Project
} {
  const project = makeProject()
  const index = project.addSourceFileAtPath(path.join(root, 'sdk/index.ts'))
  const sources = project.addSourceFilesAtPaths(path.join(root, 'sdk/declare/*.ts'))
  const checker = project.getTypeChecker().compilerObject
  const at = index.compilerNode
  const module = checker.getSymbolAtLocation(at)
  if (module === undefined) throw new Error('sdk/index.ts exports nothing')
  const walk: Walk = { checker, at, places: new Map() }
  const symbols = checker
    .getExportsOfModule(module)
    .map((symbol) => ((symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol)))
  const functions = symbols.filter((symbol) => (symbol.flags & ts.SymbolFlags.Function) !== 0)
  for (const symbol of functions) {
    for (const signature of checker.getTypeOfSymbolAtLocation(symbol, at).getCallSignatures()) {
      signature.parameters.forEach((parameter, position) => {
        const before = `vla.${symbol.name}(${'"" as never, '.repeat(position)}`
        visit(walk, symbol.name, before, ')', checker.getTypeOfSymbolAtLocation(parameter, at))
      })
    }
  }
  for (const { label, before, after, type } of GENERIC) {
    const declared = sources.flatMap((source) => source.getInterface(type) ?? [])
    if (declared[0] === undefined) throw new Error(`no type ${type}`)
    add(walk, label, before, after, declared[0].getType().compilerType)
  }
  return { places: [...walk.places.values()], functions, project }
}

/** What a value of some type may hold, as long as the user writes it as a literal: constructors have their own places. */
function visit(walk: Walk, label: string, before: string, after: string, type: ts.Type): void {
  const { checker } = walk
  const whole = checker.getNonNullableType(type)
  for (const part of whole.isUnion() ? whole.types : [whole]) {
    if (checker.isArrayType(part) || checker.isTupleType(part)) {
      for (const element of checker.getTypeArguments(part as ts.TypeReference))
        visit(walk, label, `${before}[`, `]${after}`, element)
    } else if (isWritten(checker, part)) add(walk, label, `${before}{ `, ` }${after}`, part)
  }
}

/** Properties that the SDK declares; a brand of an error is none that a user could write. */
function ownProperties(checker: ts.TypeChecker, type: ts.Type): ts.Symbol[] {
  const sdk = path.join(root, 'sdk')
  return checker
    .getPropertiesOfType(type)
    .filter(({ name }) => name !== '~vla')
    .filter(({ declarations = [] }) =>
      declarations.some((node) => path.resolve(node.getSourceFile().fileName).startsWith(sdk)),
    )
}

/** An object without a `kind`, which constructors give. */
function isWritten(checker: ts.TypeChecker, type: ts.Type): boolean {
  const isObject = (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0
  const keys = ownProperties(checker, type)
  return (
    isObject && type.getCallSignatures().length === 0 && keys.length > 0 && !keys.some(({ name }) => name === 'kind')
  )
}

function isNever(type: ts.Type): boolean {
  return (type.flags & ts.TypeFlags.Never) !== 0
}

function add(walk: Walk, label: string, before: string, after: string, type: ts.Type): void {
  const { checker, at, places } = walk
  const known = places.get(before)
  // What belongs to another form of the options is `never` in this one; what stands in the object already is not written again.
  const written = before.slice(before.lastIndexOf('{'))
  const symbols = ownProperties(checker, type)
    .filter((symbol) => !isNever(checker.getNonNullableType(checker.getTypeOfSymbolAtLocation(symbol, at))))
    .filter(({ name }) => !written.includes(`${name}:`))
  const earlier = new Map(known?.keys.map((key) => [key.name, key]))
  const keys = symbols.map((symbol): Key => {
    const value = checker.getNonNullableType(checker.getTypeOfSymbolAtLocation(symbol, at))
    const isList = checker.isArrayType(value)
    const single = isList ? (checker.getTypeArguments(value as ts.TypeReference)[0] ?? value) : value
    const parts = single.isUnion() ? single.types : [single]
    return {
      isList,
      name: symbol.name,
      optional: (symbol.flags & ts.SymbolFlags.Optional) !== 0,
      isNumber: parts.some((part) => (part.flags & ts.TypeFlags.NumberLike) !== 0),
      literals: [
        ...(earlier.get(symbol.name)?.literals ?? []),
        ...parts.flatMap((part) => (part.isStringLiteral() ? [part.value] : [])),
      ],
    }
  })
  // Options of several forms have one place: what either form knows.
  for (const { name } of keys) earlier.delete(name)
  places.set(before, {
    label,
    before,
    after,
    keys: [...earlier.values(), ...keys],
  })
  for (const symbol of symbols) {
    const value = checker.getTypeOfSymbolAtLocation(symbol, at)
    visit(walk, `${label}.${symbol.name}`, `${before}${symbol.name}: `, after, value)
  }
}
