/** Declarations over the whole vocabulary that somebody might write: plain data, as the constructors make it. */
import { gpuTable } from '../../sdk/catalog/gpus.ts'
import { policies } from '../../sdk/catalog/lerobot/index.ts'
import { timmTable } from '../../sdk/catalog/timm.ts'
import { policyTypes } from '../../sdk/declare/policies.ts'
import type { Draw } from './draw.ts'
import { copyOf } from './wild.ts'

export type Data = Record<string, unknown>

/** Folders of datasets and of weights that declarations name; a run has fixtures for some of them. */
export const DATASET_ROOTS = ['data/reach', './data/arm_a', './data/arm_b', '../elsewhere/data'] as const
export const WEIGHTS = ['./weights/policy', './weights/tower', './weights/llm', 'openvla/openvla-7b'] as const

/** Features of the datasets' cameras. */
export const CAMERA_FEATURES = ['observation.image', 'observation.images.front', 'observation.images.wrist'] as const

const shares = ['0%', '2%', '3%', '10%', '50%', '75%', '99.5%', '100%'] as const
const updates = [1, 10, 100, 600, 1_000, 5_000, 20_000, 100_000] as const
const rates = [0, 1e-6, 2e-5, 1e-4, 3e-4, 1e-3, 1e-2, 0.1, 1] as const
const dtypes = ['fp32', 'bf16', 'fp64'] as const
const normalizations = ['meanStd', 'minMax', 'quantiles', 'identity'] as const

const duration = (d: Draw): unknown => (d.chance(0.5) ? d.pick(shares) : d.pick(updates))

/** One declaration. */
export function drawDeclaration(d: Draw): Data {
  const { model, cameras, modules } = drawModel(d)
  const { hardware, world } = drawHardware(d)
  const count = d.pick([100, 1_000, 20_000, 100_000])
  return {
    name: d.pick(['run', 'own-vla', 'a1', 'reach-v3']),
    model,
    ...drawData(d, cameras),
    ...d.maybe(0.3, () => ({ normalize: drawNormalize(d) })),
    ...d.maybe(0.2, () => ({ augment: drawAugment(d) })),
    ...d.maybe(0.2, () => ({ loader: d.maybe(0.8, () => ({ workers: d.pick([0, 1, 4, 8]) })) })),
    hardware,
    ...d.maybe(0.8, () => ({
      modules: Object.fromEntries(d.some(modules, d.int(0, modules.length)).map((name) => [name, drawModule(d)])),
    })),
    ...d.maybe(0.6, () => ({
      parallel: d.chance(0.3)
        ? { kind: 'ddp' }
        : { kind: 'fsdp2', ...d.maybe(0.4, () => ({ shard: d.pick(['full', 'gradOp']) })) },
    })),
    training: drawTraining(d, count, world),
    ...d.maybe(0.6, () => ({
      checkpoint: {
        every: d.chance(0.3) ? d.pick(['1%', '10%', '50%']) : Math.max(1, Math.round(count / d.pick([2, 5, 20]))),
        ...d.maybe(0.5, () => ({ keep: d.int(1, 5) })),
      },
    })),
    ...d.maybe(0.4, () => ({ track: d.some(TRACKERS, d.int(0, 3)) })),
    ...d.maybe(0.3, () => ({ evaluate: drawEvaluate(d) })),
    ...d.maybe(0.6, () => ({ export: Array.from({ length: d.int(0, 2) }, () => drawExport(d)) })),
    ...d.maybe(0.5, () => ({ launch: d.some([{ kind: 'torchrun' }, drawSlurm(d)], d.int(0, 2)) })),
    ...d.maybe(0.15, () => ({
      rules: Object.fromEntries(
        d
          .some(['VLA101', 'VLA203', 'VLA226', 'VLA601', 'VLA999', 'VLA504'], d.int(1, 2))
          .map((id) => [id, { kind: 'off', reason: d.pick(['measured on our cluster', ' ', '']) }]),
      ),
    })),
  }
}

const TRACKERS = [{ kind: 'tensorboard' }, { kind: 'jsonl' }, { kind: 'wandb', project: 'kitchen', entity: 'robots' }]

interface Drawn {
  readonly model: Data
  readonly cameras: readonly string[]
  readonly modules: readonly string[]
}

function drawModel(d: Draw): Drawn {
  const kind = d.pick(['composed', 'composed', 'composed', 'openvla', 'policy', 'policy', 'named'])
  if (kind === 'composed') return drawComposed(d)
  if (kind === 'openvla') {
    const model = {
      kind,
      weights: d.pick(WEIGHTS),
      ...d.maybe(0.5, () => ({ revision: '31f090d' })),
      ...d.maybe(0.2, () => ({ chunk: d.int(1, 8) })),
      ...d.maybe(0.4, () => ({
        action: d.chance(0.5) ? { kind: 'tokens', chunk: d.int(1, 4) } : { kind: 'regression', chunk: 8, blocks: 2 },
      })),
    }
    return { model, cameras: ['primary'], modules: ['vision', 'projector', 'language', 'action'] }
  }
  const cameras = d.some(['front', 'wrist', 'camera1', 'base_0_rgb', 'image'], d.int(1, 3))
  const shared = {
    cameras,
    ...d.maybe(0.4, () => ({ weights: d.pick(WEIGHTS) })),
    ...d.maybe(0.2, () => ({ state: d.chance(0.7) })),
    ...d.maybe(0.5, () => ({ chunk: d.pick([1, 8, 16, 50, 100]) })),
    ...d.maybe(0.3, () => ({ padding: d.pick(['masked', 'counted']) })),
    ...d.maybe(0.3, () => ({ batchNorm: d.pick(['refuse', 'frozen']) })),
    ...d.maybe(0.2, () => ({ statistics: d.pick(['dataset', 'inherited']) })),
    ...d.maybe(0.2, () => ({ images: d.pick(['imagenet', 'meanStd', 'identity']) })),
  }
  if (kind === 'named') {
    const model = {
      kind: 'lerobotPolicy',
      type: d.pick(['vqbet', 'evo1', 'act', 'mine']),
      ...d.maybe(0.3, () => ({ plugin: d.pick(['lerobot_policy_mine', 'mine']) })),
      chunk: 5,
      ...d.maybe(0.9, () => ({
        modules: {
          vision: {
            parameters: ['vqbet.rgb_encoder.*'],
            ...d.maybe(0.5, () => ({ blocks: ['vqbet.rgb_encoder.*.*'] })),
          },
          policy: { parameters: ['vqbet.[!r]*'], ...d.maybe(0.2, () => ({ dead: ['vqbet.x'] })) },
        },
      })),
      ...d.maybe(0.3, () => ({ config: { n_obs_steps: 1 } })),
      ...shared,
    }
    return { model, cameras, modules: ['vision', 'policy'] }
  }
  const type = d.pick(policyTypes)
  const model = { kind: type, ...shared, ...d.maybe(0.6, () => ({ config: drawConfig(d, type) })) }
  const modules = [
    'vision',
    'projector',
    'language',
    'expert',
    'heads',
    'encoder',
    'decoder',
    'unet',
    'policy',
  ] as const
  return { model, cameras, modules }
}

/** Some fields of a policy's configuration, near their defaults. */
function drawConfig(d: Draw, type: (typeof policyTypes)[number]): Data {
  const { fields, managed } = policies[type]
  const named = Object.entries(d.chance(0.9) ? fields : managed)
  return Object.fromEntries(
    d.some(named, d.int(0, 4)).map(([name, field]) => {
      const value: unknown = copyOf(field.default)
      if (typeof value !== 'number') return [name, value]
      return [name, d.pick([value, value * 2, Math.ceil(value / 2), value + 1, 0, 1])]
    }),
  )
}

const towers = Object.keys(timmTable)

function drawTower(d: Draw, output?: string): Data {
  if (d.chance(0.1))
    return {
      kind: 'transformers',
      source: d.pick(['./weights/tower', 'google/siglip-base-patch16-224']),
      ...d.maybe(0.3, () => ({ revision: 'main' })),
      ...d.maybe(0.3, () => ({ imageSize: 224 })),
      ...d.maybe(0.3, () => ({ layer: d.pick([-1, -2, 5]) })),
    }
  return {
    kind: 'timm',
    name: d.chance(0.95) ? d.pick(towers) : d.pick(['vit_unknown', 'resnet18.a1_in1k']),
    ...d.maybe(0.5, () => ({ imageSize: d.pick([64, 224, 256, 448]) })),
    ...(output === undefined ? {} : { output }),
    ...d.maybe(output === undefined ? 0.2 : 0.8, () => ({ layer: d.pick([0, -1, -2, 2]) })),
    ...d.maybe(0.1, () => ({ norm: d.pick(['native', 'group']) })),
    ...d.maybe(0.1, () => ({ weights: './weights/tower' })),
    ...d.maybe(0.1, () => ({ options: { drop_path_rate: 0.1 } })),
  }
}

function drawComposed(d: Draw): Drawn {
  const cameras = d.some(['front', 'wrist', 'top'], d.int(1, 2))
  const usesMap = d.chance(0.4)
  const vision = usesMap
    ? drawTower(d, 'map')
    : d.chance(0.6)
      ? drawTower(d)
      : {
          kind: 'fused',
          towers: [drawTower(d), drawTower(d)],
          ...d.maybe(0.3, () => ({ on: d.pick(['channels', 'sequence']) })),
        }
  const projector = d.chance(0.8)
    ? usesMap
      ? { kind: 'spatialSoftArgmax', points: 32 }
      : vision.kind === 'fused'
        ? { kind: 'fusedMlp' }
        : d.pick([{ kind: 'linear' }, { kind: 'mlp', layers: 2 }])
    : d.pick([{ kind: 'linear' }, { kind: 'fusedMlp' }, { kind: 'spatialSoftArgmax', points: 4 }])
  const action = drawAction(d)
  const model = {
    kind: 'composed',
    cameras,
    vision,
    projector,
    language: drawLanguage(d),
    ...d.maybe(0.7, () => ({ state: d.chance(0.8) })),
    action,
    ...d.maybe(0.4, () => ({ mask: d.pick(['causal', 'prefix', 'full']) })),
    ...d.maybe(0.4, () => ({ prompt: d.pick(['{instruction}', 'Do {instruction}!', 'Do it.']) })),
    ...d.maybe(0.5, () => ({ promptTokens: d.pick([8, 32, 96, 512]) })),
    ...d.maybe(0.05, () => ({ weights: './weights/policy' })),
  }
  return { model, cameras, modules: ['vision', 'projector', 'language', 'action'] }
}

function drawLanguage(d: Draw): Data {
  if (d.chance(0.25)) return { kind: 'causalLM', source: d.pick(['./weights/llm', 'Qwen/Qwen2.5-0.5B']) }
  const heads = d.pick([2, 4, 8])
  return {
    kind: 'causalLM',
    config: {
      model_type: d.pick(['llama', 'llama', 'mistral', 'qwen2', 'qwen3', 'gemma', 'gemma2', 'phi']),
      hidden_size: heads * d.pick([16, 32, 64]),
      intermediate_size: 256,
      num_hidden_layers: d.pick([1, 2, 4, 24]),
      num_attention_heads: heads,
      ...d.maybe(0.4, () => ({ num_key_value_heads: d.pick([1, 2, heads]) })),
      ...d.maybe(0.3, () => ({ vocab_size: d.pick([320, 32_000]) })),
      ...d.maybe(0.2, () => ({ tie_word_embeddings: d.chance(0.5) })),
      ...d.maybe(0.2, () => ({ max_position_embeddings: d.pick([64, 2048]) })),
    },
    ...d.maybe(0.2, () => ({ tokenizer: 'bytes' })),
  }
}

function drawAction(d: Draw): Data {
  const chunk = d.pick([1, 4, 8, 16, 64])
  switch (d.pick(['tokens', 'regression', 'cross', 'joint'])) {
    case 'tokens':
      return { kind: 'tokens', ...d.maybe(0.5, () => ({ chunk })), ...d.maybe(0.3, () => ({ bins: 256 })) }
    case 'regression':
      return {
        kind: 'regression',
        chunk,
        ...d.maybe(0.3, () => ({ hidden: 128 })),
        ...d.maybe(0.3, () => ({ blocks: 2 })),
      }
    case 'cross':
      return {
        kind: 'flowMatching',
        layers: d.int(1, 8),
        hidden: d.pick([128, 512]),
        chunk,
        ...d.maybe(0.3, () => ({ heads: 8 })),
      }
    default:
      return {
        kind: 'flowMatching',
        attention: 'joint',
        hidden: d.pick([64, 128, 1024]),
        chunk,
        ...d.maybe(0.3, () => ({ mlp: 256 })),
      }
  }
}

function drawDataset(d: Draw): Data {
  return {
    kind: 'lerobotDataset',
    ...(d.chance(0.85) ? { root: d.pick(DATASET_ROOTS) } : { repo: 'lerobot/bridge', revision: 'v3.0' }),
    ...d.maybe(0.15, () => ({ episodes: d.pick([[0], [0, 1, 2, 3, 4, 5, 8, 13], [0, 0, 1], [5_000]]) })),
    ...d.maybe(0.4, () => ({ holdout: d.pick(['5%', '50%', [0, 1], [], [9_999]]) })),
    ...d.maybe(0.15, () => ({ name: d.pick(['arm', 'bridge']) })),
    ...d.maybe(0.1, () => ({ state: d.pick(['observation.state', 'observation.effort']) })),
    ...d.maybe(0.1, () => ({ action: d.pick(['action', 'action.delta']) })),
  }
}

function drawCameras(d: Draw, cameras: readonly string[]): Data {
  const features = d.some(CAMERA_FEATURES, cameras.length)
  return Object.fromEntries(cameras.map((camera, index) => [camera, features[index] ?? 'observation.images.none']))
}

function drawData(d: Draw, cameras: readonly string[]): Data {
  if (d.chance(0.8)) return { data: drawDataset(d), ...d.maybe(0.9, () => ({ cameras: drawCameras(d, cameras) })) }
  const entry = (): Data => ({
    from: drawDataset(d),
    weight: d.pick([0.1, 1, 3, 1_000]),
    ...d.maybe(0.7, () => ({ cameras: drawCameras(d, cameras) })),
  })
  return {
    data: Array.from({ length: d.int(1, 3) }, entry),
    ...d.maybe(0.3, () => ({ cameras: drawCameras(d, cameras) })),
  }
}

function drawNormalize(d: Draw): Data {
  return {
    ...d.maybe(0.6, () => ({ state: d.pick(normalizations) })),
    ...d.maybe(0.6, () => ({ action: d.pick(normalizations) })),
    ...d.maybe(0.5, () => ({ constant: d.pick(['refuse', 'pass', 'zero']) })),
    ...d.maybe(0.2, () => ({ actionMask: Array.from({ length: d.pick([4, 7]) }, () => d.chance(0.7)) })),
    ...d.maybe(0.3, () => ({ clip: d.chance(0.5) })),
  }
}

function drawAugment(d: Draw): Data {
  return {
    kind: 'imageAugmentation',
    ...d.maybe(0.5, () => ({ crop: d.pick([0.1, 0.9, 1]) })),
    ...d.maybe(0.5, () => ({ brightness: 0.2, contrast: 0.2 })),
    ...d.maybe(0.3, () => ({ saturation: 1, hue: 0.05 })),
  }
}

function drawHardware(d: Draw): { hardware: Data; world: number } {
  if (d.chance(0.4)) {
    const processes = d.pick([1, 2, 4])
    return { hardware: { kind: 'cpus', processes }, world: processes }
  }
  const perNode = d.pick([1, 4, 8])
  const nodes = d.pick([1, 1, 2])
  const hardware = {
    kind: 'gpus',
    gpu: d.pick(Object.keys(gpuTable)),
    perNode,
    ...d.maybe(nodes > 1 ? 1 : 0.2, () => ({ nodes })),
    ...d.maybe(0.2, () => ({ hostMemory: d.pick([512, 2 ** 37, 2 ** 40]) })),
    ...d.maybe(0.2, () => ({ network: 'ib-400' })),
  }
  return { hardware, world: perNode * nodes }
}

function drawFreeze(d: Draw): unknown {
  const trains = (): unknown => d.pick(['all', 'none', { kind: 'lastLayers', count: d.int(1, 8) }])
  switch (d.pick(['never', 'always', 'until', 'phases'])) {
    case 'until':
      return {
        kind: 'until',
        when: d.pick(['10%', '75%', 100, 50_000]),
        ...d.maybe(0.5, () => ({ thenTrain: d.pick(['all', { kind: 'lastLayers', count: d.int(1, 6) }]) })),
        ...d.maybe(0.3, () => ({ rewarm: duration(d) })),
      }
    case 'phases':
      return Array.from({ length: d.int(1, 3) }, (_, index) => ({
        kind: 'phase',
        from: index === 0 && d.chance(0.9) ? 0 : duration(d),
        train: trains(),
        ...d.maybe(0.2, () => ({ rewarm: duration(d) })),
      }))
    case 'always':
      return 'always'
    default:
      return 'never'
  }
}

function drawModule(d: Draw): Data {
  return {
    ...d.maybe(0.7, () => ({ lr: d.pick(rates) })),
    ...d.maybe(0.3, () => ({ weightDecay: d.pick([0, 0.01, 0.1, 10]) })),
    ...d.maybe(0.5, () => ({ dtype: d.pick(dtypes) })),
    ...d.maybe(0.15, () => ({ storage: d.pick(dtypes) })),
    ...d.maybe(0.3, () => ({ recompute: d.pick(['none', 'full']) })),
    ...d.maybe(0.3, () => ({ freeze: drawFreeze(d) })),
    ...d.maybe(0.15, () => ({
      adapt: {
        kind: 'lora',
        rank: d.pick([1, 8, 32, 512]),
        ...d.maybe(0.4, () => ({ alpha: d.pick([1, 16, 512]) })),
        ...d.maybe(0.3, () => ({ dropout: 0.05 })),
        ...d.maybe(0.3, () => ({ targets: d.pick([['q_proj', 'v_proj'], ['none_such'], ['lm_head']]) })),
      },
    })),
  }
}

function drawTraining(d: Draw, count: number, world: number): Data {
  const microBatch = d.pick([1, 4, 8, 16, 32])
  const schedule = (): Data => ({
    kind: d.pick(['cosine', 'constant', 'linearDecay']),
    ...d.maybe(0.7, () => ({ warmup: duration(d) })),
  })
  return {
    updates: count,
    globalBatch: d.chance(0.85) ? microBatch * world * d.pick([1, 1, 2, 4]) : d.pick([1, 13, 64, 4_096]),
    microBatch,
    ...d.maybe(0.7, () => ({ lr: d.pick(rates) })),
    ...d.maybe(0.4, () => ({ weightDecay: d.pick([0, 0.01, 0.1]) })),
    ...d.maybe(0.4, () => ({
      optimizer: {
        kind: 'adamw',
        ...d.maybe(0.4, () => ({
          betas: d.pick([
            [0.9, 0.95],
            [0.999, 0.9],
            [0, 0],
          ]),
        })),
        ...d.maybe(0.3, () => ({ eps: d.pick([1e-8, 1e-3]) })),
        ...d.maybe(0.2, () => ({ decayBiasAndNorm: true })),
      },
    })),
    ...d.maybe(0.6, () => {
      const drawn = schedule()
      return {
        schedule:
          drawn.kind === 'constant'
            ? drawn
            : { ...drawn, ...d.maybe(0.4, () => ({ floor: d.pick([0, 0.1, 1, 1e-6]) })) },
      }
    }),
    ...d.maybe(0.4, () => ({ clip: d.pick([1, 0.1, 1e-3, 'none']) })),
    ...d.maybe(0.5, () => ({ seed: d.int(0, 100) })),
    ...d.maybe(0.2, () => ({ skipNonFinite: d.pick([0, 10, 100_000]) })),
    ...d.maybe(0.4, () => ({ validateEvery: d.pick(['5%', 1, 100, 1_000_000]) })),
  }
}

function drawEvaluate(d: Draw): Data {
  return {
    kind: 'simulation',
    env: 'metaworld',
    tasks: d.some(['reach-v3', 'drawer-close-v3', 'reach-v3', 'fly-v1'], d.int(1, 3)),
    ...d.maybe(0.6, () => ({ episodes: d.pick([1, 20, 50]) })),
    ...d.maybe(0.6, () => ({ maxSteps: d.pick([10, 100, 500]) })),
    ...d.maybe(0.6, () => ({ imageSize: d.pick([64, 224, 480]) })),
    ...d.maybe(0.3, () => ({ firstSeed: d.int(0, 1_000) })),
    ...d.maybe(0.5, () => ({ actionSteps: d.pick([1, 8, 100]) })),
  }
}

function drawExport(d: Draw): Data {
  return { kind: d.pick(['hf', 'lerobot']), ...d.maybe(0.5, () => ({ dtype: d.pick(dtypes) })) }
}

function drawSlurm(d: Draw): Data {
  return {
    kind: 'slurm',
    partition: d.pick(['gpu', 'a100']),
    time: d.pick(['24:00:00', '2-00:00:00', '30', '0', '00:00:30']),
    ...d.maybe(0.3, () => ({ account: 'robots' })),
    ...d.maybe(0.5, () => ({ requeue: d.chance(0.5) })),
    ...d.maybe(0.3, () => ({
      setup: d.some(
        [
          'module load cuda/12.8',
          'cd /scratch',
          '#SBATCH --mem=0',
          'export NCCL_DEBUG=INFO',
          'pip install x',
          'export RANK=0',
        ],
        d.int(0, 3),
      ),
    })),
  }
}
