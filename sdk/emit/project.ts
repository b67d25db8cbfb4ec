/** What all emitters of one project share: the plan, its reasons, and how paths of the declaration read from the project's folder. */
import path from 'node:path'
import {
  isKnown,
  type ComposedPlanModel,
  type Pipeline,
  type Plan,
  type PlanDataset,
  type PlanTower,
  type Unknown,
} from '../plan/plan.ts'
import type { EmitContext } from './emitted.ts'
import { oneLine } from './text.ts'

/** The plan leaves something open that a project cannot be written without. */
export class PlanIncomplete extends Error {
  override readonly name = 'PlanIncomplete'
  /** JSON pointer into the plan's values -> why it is open. */
  readonly missing: ReadonlyMap<string, string>

  constructor(missing: ReadonlyMap<string, string>) {
    super(
      `the plan leaves open what a project needs:\n${[...missing].map(([pointer, because]) => `  ${pointer}: ${because}`).join('\n')}`,
    )
    this.missing = missing
  }
}

export interface Project {
  readonly plan: Plan
  readonly pipeline: Pipeline
  readonly context: EmitContext
  /** Processes over all nodes. */
  readonly world: number
}

export function openProject(plan: Plan, context: EmitContext): Project {
  return { plan, pipeline: plan.pipeline, context, world: plan.pipeline.parallel.world }
}

/** Throws {@link PlanIncomplete} with everything that a project cannot be written without and that the plan leaves open. */
export function requireComplete({ pipeline }: Project): void {
  const { model, training } = pipeline
  const wanted: [pointer: string, value: unknown][] = [
    ['/model/stateDim', model.stateDim],
    ['/model/actionDim', model.actionDim],
    ...modelSizes(model),
    ['/training/accumulation', training.accumulation],
    ...pipeline.datasets.map(({ holdout }, index): [string, unknown] => [`/datasets/${index}/holdout`, holdout]),
    ...pipeline.modules.map(({ lr }, index): [string, unknown] => [`/modules/${index}/lr`, lr]),
  ]
  const missing = wanted.flatMap(([pointer, value]): [string, string][] =>
    isKnown(value) ? [] : [[pointer, (value as Unknown).because]],
  )
  if (missing.length > 0) throw new PlanIncomplete(new Map(missing))
}

/** The sizes that model.py states, beside the widths of state and action. */
function modelSizes(model: Pipeline['model']): [pointer: string, value: unknown][] {
  if (model.family === 'lerobot')
    return [
      ['/model/chunk', model.chunk],
      ['/model/observationSteps', model.observationSteps],
      ['/model/imageSizes', model.imageSizes],
    ]
  if (model.action.decoder !== 'regression') return []
  return [
    ['/model/action/hidden', model.action.hidden],
    ['/model/action/slots', model.action.slots],
  ]
}

/** The value, which {@link requireComplete} has seen to be known. */
export function need<T>(value: T | Unknown, pointer: string): T {
  if (isKnown(value)) return value
  throw new PlanIncomplete(new Map([[pointer, value.because]]))
}

/** The reason of a value that the compiler chose, as a comment; nothing for what the user declared, since pipeline.ts says it. */
export function why({ plan }: Project, pointer: string): string | undefined {
  const note = plan.notes[pointer]
  return note === undefined || note.from === 'declared' ? undefined : note.reason.replace(/(?<!\.)\.$/, '')
}

/** Whether a source of weights can only be a folder or file, never a hub id (`org/name`). As the lock reads it. */
export function isLocalPath(source: string): boolean {
  return !/^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/.test(source) || /\.(safetensors|bin|pt|pth)$/.test(source)
}

/** A path of the declaration, which starts at pipeline.ts, as the project's scripts see it from their own folder. */
export function projectPath({ context }: Project, declared: string): string {
  if (path.posix.isAbsolute(declared) || path.win32.isAbsolute(declared) || declared.startsWith('~')) return declared
  const joined = path.posix.normalize(path.posix.join(context.sourceFolder, declared)).replace(/(?<=.)\/$/, '')
  return joined.startsWith('.') ? joined : `./${joined}` // never to be taken for a hub id
}

/** Weights: a folder or file as {@link projectPath}, a hub id as it is. */
export function projectSource(project: Project, declared: string): string {
  return isLocalPath(declared) ? projectPath(project, declared) : declared
}

/** `2 CPU processes`, `8 x H100-SXM-80GB`, `4 nodes of 8 x H100-SXM-80GB`. */
export function hardwarePhrase({ hardware }: Pipeline): string {
  if (hardware.kind === 'cpus')
    return hardware.processes === 1 ? 'one CPU process' : `${hardware.processes} CPU processes`
  const node = `${hardware.perNode} x ${hardware.gpu}`
  return hardware.nodes === 1 ? node : `${hardware.nodes} nodes of ${node}`
}

/** `OpenVLA`, LeRobot's name of the policy, or what a composed VLA is composed of. */
export function modelPhrase({ model }: Pipeline): string {
  if (model.family === 'lerobot') return `the LeRobot policy ${model.type}`
  if (model.family === 'openvla') return `OpenVLA (${actionPhrase(model.action)})`
  const towers = model.vision.towers.map((tower: PlanTower) => tower.name).join(' + ')
  const { config } = model.language
  const type = isKnown(config) ? (config as Readonly<Record<string, unknown>>)['model_type'] : undefined
  const language = model.language.name ?? (typeof type === 'string' ? type : 'a language model')
  return `a composed VLA (${towers}, ${language}, ${actionPhrase(model.action)})`
}

function actionPhrase(action: ComposedPlanModel['action']): string {
  if (action.decoder === 'tokens') return 'action tokens'
  if (action.decoder === 'regression') return 'L1 regression'
  return action.attention === 'joint' ? 'flow matching with joint attention' : 'flow matching'
}

/** `metaworld`, `arm_a and arm_b`, `arm_a, arm_b and arm_c`. */
export function dataPhrase({ datasets }: Pipeline): string {
  const names = datasets.map((dataset: PlanDataset) => dataset.name)
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`
}

/** `2 processes, FSDP2 (full)` */
export function parallelPhrase({ parallel }: Pipeline): string {
  return parallel.kind === 'ddp'
    ? 'DDP'
    : parallel.shard === 'full'
      ? 'FSDP2, fully sharded'
      : 'FSDP2, gradients and optimizer sharded'
}

/** Who wrote a file and from what. No time and no absolute path: the same input gives the same bytes. */
export function writtenBy({ context, plan }: Project): string {
  return `Written by \`vla build\` ${context.version} from ${oneLine(context.source)} (plan ${plan.hash.slice(0, 8)}). Change ${oneLine(context.source)} and build again; hooks.py is yours.`
}

/** Where the run writes, below the project's folder. */
export function runFolder({ pipeline }: Project): string {
  return `runs/${pipeline.name}`
}

/** A number for people: `50,000`. */
export function grouped(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 20 })
}

/** `1.5 GiB` */
export function bytesPhrase(bytes: number): string {
  const power = bytes === 0 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10))
  return `${Number((bytes / 1024 ** power).toPrecision(3))} ${['bytes', 'KiB', 'MiB', 'GiB', 'TiB'][power] ?? ''}`
}
