/** Declaration and lock to Plan: a pure function. */
import { isPolicy, type Model } from '../declare/model.ts'
import type { Declaration } from '../declare/pipeline.ts'
import type { DeclarationPath, Finding } from '../finding/finding.ts'
import type { Lock } from '../lock/lock.ts'
import { canonicalHash } from '../plan/canonical.ts'
import { fromPointer, valueAt } from '../plan/notes.ts'
import { chunkOf, type Pipeline, type Plan } from '../plan/plan.ts'
import { resolveDatasets } from './data.ts'
import { resolveComposed, resolveOpenvla } from './model.ts'
import { describeModules, resolveModules } from './modules.ts'
import { Notebook, unknown } from './notebook.ts'
import { policyCameras, resolvePolicy } from './policy.ts'
import {
  resolveAugment,
  resolveCheckpoint,
  resolveEvaluate,
  resolveExports,
  resolveHardware,
  resolveLaunch,
  resolveLoader,
  resolveNormalize,
  resolveParallel,
  resolveSuppressed,
  resolveTrack,
  resolveTraining,
} from './run.ts'
import { auditWeights } from './weights.ts'

/** What reading the declaration left out, so that the Plan does not put a default in its place. */
export interface Unreadable {
  readonly broken: readonly DeclarationPath[]
  readonly findings: readonly Finding[]
}

/**
 * Makes everything explicit.
 *
 * @param declaration - as `parseDeclaration` read it; undefined where it could not be read at all
 * @param lock - what is known of the outside world; what it does not know is `unknown` in the Plan
 * @param unreadable - what `parseDeclaration` left out: those nodes become `unknown`, naming the finding
 * @returns the Plan, and the findings that making it gave (not those of `unreadable`)
 */
export function resolve(
  declaration: Declaration | undefined,
  lock: Lock | undefined,
  unreadable: Unreadable = { broken: [], findings: [] },
): { plan: Plan | undefined; findings: Finding[] } {
  if (declaration === undefined) return { plan: undefined, findings: [] }
  const book = new Notebook()
  book.note(['name'], ['name'], 'declared', 'As declared.')
  const { model: declared } = declaration
  const cameras = cameraSlots(declared)
  const usesState = isPolicy(declared)
    ? declared.state !== false
    : declared.kind === 'composed' && declared.state === true
  const datasets = resolveDatasets(declaration, lock, cameras, usesState, book)
  const model =
    declared.kind === 'openvla'
      ? resolveOpenvla(declared, datasets, book)
      : isPolicy(declared)
        ? resolvePolicy(declared, datasets, lock, book)
        : resolveComposed(declared, datasets, lock, book)
  const hardware = resolveHardware(declaration, book)
  const parallel = resolveParallel(declaration, hardware, book)
  const facts = describeModules(declared, model)
  const pipeline: Pipeline = {
    name: declaration.name,
    model,
    datasets,
    normalize: resolveNormalize(declaration, model, lock, book),
    augment: resolveAugment(declaration, book),
    loader: resolveLoader(declaration, book),
    modules: resolveModules(declaration, model, facts, hardware, parallel, lock, book),
    hardware,
    parallel,
    training: resolveTraining(declaration, model, parallel.world, datasets, book),
    checkpoint: resolveCheckpoint(declaration, book),
    track: resolveTrack(declaration, book),
    evaluate: resolveEvaluate(declaration, chunkOf(model).chunk, book),
    exports: resolveExports(declaration, book),
    launch: resolveLaunch(declaration, book),
    suppressed: resolveSuppressed(declaration, book),
  }
  book.findings.push(...auditWeights(model, facts, lock))
  markBroken(pipeline, book, [...causes(unreadable), ...misnamed(declaration, pipeline, unreadable.findings)])
  return {
    plan: { schemaVersion: 1, hash: canonicalHash(pipeline), pipeline, notes: book.notes },
    findings: book.findings,
  }
}

/** The cameras of a model, in the order of its sequence. */
function cameraSlots(model: Model): readonly string[] {
  if (model.kind === 'openvla') return ['primary']
  return isPolicy(model) ? (model.cameras ?? policyCameras(model)) : model.cameras
}

interface Broken {
  readonly path: DeclarationPath
  /** Id of the finding that says so. */
  readonly because: string
}

function causes({ broken, findings }: Unreadable): Broken[] {
  return broken.map((path) => {
    const finding =
      findings.find((candidate) => startsWith(candidate.path, path)) ??
      findings.find((candidate) => startsWith(path, candidate.path))
    return { path, because: finding?.id ?? 'VLA003' }
  })
}

/** The modules that the options under a wrong name may have been meant for: the one that it is renamed to, else all that have none. */
function misnamed({ modules = {} }: Declaration, pipeline: Pipeline, findings: readonly Finding[]): Broken[] {
  const bare = pipeline.modules.map(({ name }) => name).filter((name) => !Object.hasOwn(modules, name))
  return findings.flatMap(({ id, fixes }) => {
    if (id !== 'VLA001') return []
    const renamed = fixes.flatMap(({ edits }) => edits).flatMap((edit) => (edit.kind === 'renameKey' ? [edit.to] : []))
    const meant = renamed.length > 0 ? bare.filter((name) => renamed.includes(name)) : bare
    return meant.map((name) => ({ path: ['modules', name], because: id }))
  })
}

/** Puts `unknown` where the declaration could not be read and the Plan took a default instead. */
function markBroken(pipeline: Pipeline, book: Notebook, broken: readonly Broken[]): void {
  for (const { path, because } of broken) {
    const chosen = Object.entries(book.notes).filter(
      ([, note]) => note.from !== 'declared' && startsWith(note.path, path),
    )
    const places = [...chosen.map(([pointer]) => fromPointer(pointer)), ...inherited(pipeline, path)]
    for (const place of places) {
      const last = place.at(-1)
      const parent = valueAt(pipeline, place.slice(0, -1))
      // A node around it may be unknown already.
      if (last === undefined || typeof parent !== 'object' || parent === null || !Object.hasOwn(parent, last)) continue
      ;(parent as Record<string | number, unknown>)[last] = unknown(because)
      book.note(place, path, 'derived', `Could not be read (${because}).`)
    }
  }
}

/** A module's options that the Plan took from `training` in place of the broken ones. */
function inherited(pipeline: Pipeline, [top, name, option]: DeclarationPath): (string | number)[][] {
  if (top !== 'modules' || name === undefined) return []
  const index = pipeline.modules.findIndex((module) => module.name === name)
  if (index === -1) return []
  return ['lr', 'weightDecay']
    .filter((field) => option === undefined || option === field)
    .map((field) => ['modules', index, field])
}

function startsWith(path: DeclarationPath, start: DeclarationPath): boolean {
  return start.length <= path.length && start.every((step, index) => step === path[index])
}
