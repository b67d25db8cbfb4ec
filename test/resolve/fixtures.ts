/** Declarations and a lock to resolve. */
import {
  adamw,
  causalLM,
  composed,
  cosine,
  cpus,
  defineVLAPipeline,
  gpus,
  hf,
  lastLayers,
  lerobotDataset,
  openvla,
  regression,
  spatialSoftArgmax,
  timmVision,
  until,
  type Declaration,
} from '../../sdk/index.ts'
import type { DatasetEntry, Lock } from '../../sdk/lock/lock.ts'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import { isKnown, type ComposedPlanModel, type Plan, type PlanModule } from '../../sdk/plan/plan.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'

/** A small VLA on two CPU processes. */
export const small: Declaration = defineVLAPipeline({
  name: 'small',
  model: composed({
    cameras: ['front'],
    vision: timmVision('convnext_atto', { imageSize: 64, output: 'map', layer: 0 }),
    projector: spatialSoftArgmax({ points: 32 }),
    language: causalLM({
      config: {
        model_type: 'llama',
        hidden_size: 128,
        intermediate_size: 256,
        num_hidden_layers: 2,
        num_attention_heads: 4,
      },
    }),
    state: true,
    action: regression({ chunk: 8 }),
  }),
  data: lerobotDataset({ root: './data/metaworld' }),
  hardware: cpus({ processes: 2 }),
  training: { updates: 600, globalBatch: 64, microBatch: 32, lr: 1e-3 },
})

/** Example 1 of the design: OpenVLA on one node, vision frozen for three quarters of the run. */
export const bridge: Declaration = defineVLAPipeline({
  name: 'openvla-bridge',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d' }),
  data: lerobotDataset({ repo: 'lerobot/bridge', revision: 'v3.0' }),
  cameras: { primary: 'observation.images.image_0' },
  hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
  modules: {
    vision: {
      lr: 2e-6,
      weightDecay: 0,
      dtype: 'bf16',
      recompute: 'full',
      freeze: until('75%', { thenTrain: lastLayers(6) }),
    },
    projector: { lr: 1e-4, weightDecay: 0.01, dtype: 'bf16' },
    language: { lr: 2e-5, weightDecay: 0.1, dtype: 'bf16', recompute: 'full' },
  },
  training: {
    updates: 50_000,
    globalBatch: 256,
    microBatch: 16,
    optimizer: adamw(),
    schedule: cosine({ warmup: '3%' }),
    clip: 1.0,
    seed: 7,
  },
  checkpoint: { every: 1_000, keep: 3 },
  export: [hf({ dtype: 'bf16' })],
})

export function dataset(changes: Partial<DatasetEntry> = {}, width = 4): DatasetEntry {
  const vector = Array.from({ length: width }, (_, index) => index)
  const statistics = { min: vector, max: vector, mean: vector, std: vector, q01: vector, q99: vector }
  return {
    repo: null,
    revision: null,
    fingerprint: 'f'.repeat(64),
    codebaseVersion: 'v3.0',
    robotType: null,
    fps: 80,
    episodes: 20,
    frames: 400,
    features: {
      'observation.image': { dtype: 'image', shape: [64, 48, 3], names: ['height', 'width', 'channels'] },
      'observation.state': { dtype: 'float32', shape: [width], names: null },
      action: { dtype: 'float32', shape: [width], names: null },
      timestamp: { dtype: 'float32', shape: [1], names: null },
    },
    statistics: { 'observation.state': statistics, action: statistics },
    ...changes,
  }
}

export const lock: Lock = {
  schemaVersion: 1,
  datasets: { 'data/metaworld': dataset(), 'lerobot/bridge@v3.0': dataset({}, 7) },
  weights: {},
}

/** Parses and resolves, as the command line does. */
export function planOf(declaration: unknown, known: Lock | undefined = lock): { plan: Plan; findings: string[] } {
  const parsed = parseDeclaration(declaration)
  const { plan, findings } = resolve(parsed.declaration, known, parsed)
  if (plan === undefined) throw new Error(`no plan: ${parsed.findings.map(({ message }) => message).join('; ')}`)
  return { plan, findings: findings.map(({ id, path }) => `${id} ${path.join('.')}`) }
}

/** The model of a plan that is no LeRobot policy. */
export function modelOf({ pipeline: { model } }: Plan): ComposedPlanModel {
  if (model.family === 'lerobot') throw new Error('a composed model was expected')
  return model
}

export function moduleOf(plan: Plan, name: string): PlanModule {
  const found = plan.pipeline.modules.find((module) => module.name === name)
  if (found === undefined) throw new Error(`no module ${name}`)
  return found
}

/** The reason of a value that the plan does not know. */
export function openBecause(value: unknown): string | undefined {
  return isKnown(value) ? undefined : (value as { because: string }).because
}
