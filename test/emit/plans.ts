/** Plans written by hand: every feature that changes what is emitted stands in one of them. */
import { canonicalHash } from '../../sdk/plan/canonical.ts'
import {
  plan as planSchema,
  type ComposedPlanModel,
  type Note,
  type Pipeline,
  type Plan,
  type PlanModule,
} from '../../sdk/plan/plan.ts'

/** A pipeline of a composed VLA, so that tests can vary the parts of its model. */
export type ComposedPipeline = Pipeline & { readonly model: ComposedPlanModel }

export function planOf(pipeline: Pipeline, notes: Record<string, Note> = {}): Plan {
  return planSchema.parse({ schemaVersion: 1, hash: canonicalHash(pipeline), pipeline, notes })
}

/** The first of a list that has one. */
export function firstOf<T>(items: readonly T[]): T {
  const [item] = items
  if (item === undefined) throw new Error('the list is empty')
  return item
}

const moduleDefaults = {
  dead: [],
  blocks: [],
  liveBlocks: [],
  lr: 1e-3,
  weightDecay: 0.01,
  dtype: 'fp32',
  storage: 'fp32',
  recompute: 'none',
  freeze: [{ from: 0, trains: 'all', rewarm: 0 }],
  adapt: null,
  count: 1_000,
  deadCount: 0,
  adapterCount: 0,
} as const satisfies Partial<PlanModule>

/** The quickstart: a convolutional map tower, soft-argmax, regression, two CPU processes. */
function small(): ComposedPipeline {
  return {
    name: 'small',
    model: {
      family: 'composed',
      cameras: ['front'],
      vision: {
        towers: [
          {
            source: 'timm',
            name: 'convnext_atto',
            revision: null,
            weights: null,
            imageSize: 64,
            output: 'map',
            layer: 0,
            norm: 'native',
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
            options: {},
            width: 40,
            tokens: 256,
          },
        ],
        fuse: 'channels',
      },
      projector: { kind: 'spatialSoftArgmax', points: 32 },
      language: {
        source: 'config',
        name: null,
        revision: null,
        config: {
          model_type: 'llama',
          hidden_size: 128,
          num_hidden_layers: 2,
          num_attention_heads: 4,
          intermediate_size: 256,
          vocab_size: 320,
        },
        tokenizer: 'bytes',
        spareTokens: 0,
        hidden: 128,
        layers: 2,
        heads: 4,
        vocab: 320,
      },
      action: { decoder: 'regression', chunk: 8, hidden: 128, blocks: 2, queries: 'learnable', slots: 1 },
      mask: 'full',
      prompt: 'In: What action should the robot take to {instruction}?\nOut:',
      promptTokens: 96,
      promptLower: false,
      promptTrailingToken: null,
      stateDim: 4,
      actionDim: 4,
      weights: null,
    },
    datasets: [
      {
        name: 'metaworld',
        repo: null,
        root: './data/metaworld',
        revision: null,
        weight: 1,
        cameras: { front: 'observation.image' },
        state: 'observation.state',
        action: 'action',
        selected: null,
        holdout: [0, 1],
        fps: 80,
        episodes: 60,
        frames: 4409,
        stateDim: 4,
        actionDim: 4,
        cameraSizes: { 'observation.image': [64, 64] },
        video: false,
        clock: { timestampMax: 1.25, frameIndexMax: 100 },
        statistics: {},
        fingerprint: 'f'.repeat(64),
      },
    ],
    normalize: {
      state: 'meanStd',
      action: 'minMax',
      constant: 'refuse',
      actionMask: [true, true, true, true],
      clip: false,
    },
    augment: null,
    loader: { workers: 0 },
    modules: [
      {
        ...moduleDefaults,
        name: 'vision',
        parameters: ['vision_backbone.*'],
        blocks: ['vision_backbone.featurizer.stages_0.blocks.*'],
        liveBlocks: [2],
        recompute: 'full',
        freeze: [
          { from: 0, trains: 'none', rewarm: 0 },
          { from: 100, trains: { lastLayers: 2 }, rewarm: 20 },
        ],
      },
      { ...moduleDefaults, name: 'projector', parameters: ['projector.*', 'state_projector.*'] },
      {
        ...moduleDefaults,
        name: 'language',
        parameters: ['language_model.*'],
        blocks: ['language_model.model.layers.*'],
        liveBlocks: [2],
        weightDecay: 0.1,
        dtype: 'bf16',
      },
      { ...moduleDefaults, name: 'action', parameters: ['action_head.*'] },
    ],
    hardware: { kind: 'cpus', processes: 2, nodes: 1 },
    parallel: { kind: 'fsdp2', shard: 'full', world: 2 },
    training: {
      updates: 600,
      globalBatch: 64,
      microBatch: 32,
      accumulation: 1,
      optimizer: { kind: 'adamw', betas: [0.9, 0.999], eps: 1e-8, decayBiasAndNorm: false },
      schedule: { kind: 'cosine', warmup: 18, floor: 0 },
      clip: 1,
      seed: 7,
      skipNonFinite: 10,
      validateEvery: 200,
    },
    checkpoint: { every: 200, keep: 3 },
    track: [{ kind: 'tensorboard' }, { kind: 'jsonl' }],
    evaluate: {
      env: 'metaworld',
      tasks: ['reach-v3'],
      episodes: 5,
      maxSteps: 100,
      imageSize: 64,
      firstSeed: 10_000,
      actionSteps: 8,
    },
    exports: [
      { kind: 'hf', dtype: 'fp32' },
      { kind: 'lerobot', dtype: 'fp32' },
    ],
    launch: [{ kind: 'torchrun' }],
    suppressed: [],
  }
}

/** As little as a pipeline can ask for: nothing optional is declared. */
function bare(): ComposedPipeline {
  const base = small()
  return {
    ...base,
    name: 'bare',
    model: { ...base.model, stateDim: 0 },
    datasets: base.datasets.map((dataset) => ({ ...dataset, state: null, holdout: [] })),
    modules: base.modules.map((module) => ({
      ...module,
      recompute: 'none',
      freeze: [{ from: 0, trains: 'all', rewarm: 0 }],
    })),
    training: { ...base.training, schedule: { kind: 'constant', warmup: 0 }, clip: null, validateEvery: 0 },
    track: [{ kind: 'jsonl' }],
    evaluate: null,
    exports: [],
    launch: [],
  }
}

/** OpenVLA on eight GPUs under Slurm, weights from the hub, frozen phases and dead parameters. */
function openvla(): ComposedPipeline {
  const base = small()
  const tower = firstOf(base.model.vision.towers)
  return {
    ...base,
    name: 'openvla-bridge',
    model: {
      ...base.model,
      family: 'openvla',
      cameras: ['primary'],
      vision: {
        towers: [
          {
            ...tower,
            name: 'vit_large_patch14_reg4_dinov2.lvd142m',
            imageSize: 224,
            output: 'tokens',
            layer: -2,
            width: 1024,
            tokens: 256,
            options: { act_layer: 'gelu' },
          },
          {
            ...tower,
            name: 'vit_so400m_patch14_siglip_224',
            imageSize: 224,
            output: 'tokens',
            layer: -2,
            mean: [0.5, 0.5, 0.5],
            std: [0.5, 0.5, 0.5],
            width: 1152,
            tokens: 256,
          },
        ],
        fuse: 'channels',
      },
      projector: { kind: 'fusedMlp' },
      language: {
        ...base.model.language,
        name: 'openvla/openvla-7b',
        source: 'config',
        tokenizer: 'pretrained',
        hidden: 4096,
        layers: 32,
        heads: 32,
        vocab: 32_064,
      },
      action: { decoder: 'tokens', bins: 256, chunk: 1, vocabulary: 32_000, stopToken: 2 },
      mask: 'causal',
      promptLower: true,
      promptTrailingToken: 29_871,
      stateDim: 0,
      actionDim: 7,
      weights: { source: 'openvla/openvla-7b', revision: '31f090d', layout: 'openvla' },
    },
    datasets: [
      {
        ...firstOf(base.datasets),
        name: 'bridge',
        repo: 'lerobot/bridge',
        root: null,
        revision: 'v3.0',
        cameras: { primary: 'observation.images.image_0' },
        state: null,
        holdout: Array.from({ length: 50 }, (_, index) => 950 + index),
        fingerprint: { unknown: true, because: 'the lock has no entry for it' },
      },
    ],
    normalize: {
      state: 'quantiles',
      action: 'quantiles',
      constant: 'pass',
      actionMask: [true, true, true, true, true, true, false],
      clip: true,
    },
    augment: { crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 },
    loader: { workers: 4 },
    modules: [
      {
        ...moduleDefaults,
        name: 'vision',
        parameters: ['vision_backbone.*'],
        dead: ['vision_backbone.featurizer.blocks.23.*', 'vision_backbone.featurizer.norm.*'],
        blocks: ['vision_backbone.featurizer.blocks.*', 'vision_backbone.fused_featurizer.blocks.*'],
        liveBlocks: [23, 26],
        lr: 2e-6,
        weightDecay: 0,
        dtype: 'bf16',
        recompute: 'full',
        freeze: [
          { from: 0, trains: 'none', rewarm: 0 },
          { from: 37_500, trains: { lastLayers: 6 }, rewarm: 500 },
        ],
        count: 731_000_000,
        deadCount: 43_080_480,
      },
      { ...moduleDefaults, name: 'projector', parameters: ['projector.*'], lr: 1e-4, dtype: 'bf16', count: 70_000_000 },
      {
        ...moduleDefaults,
        name: 'language',
        parameters: ['language_model.*'],
        blocks: ['language_model.model.layers.*'],
        liveBlocks: [32],
        lr: 2e-5,
        weightDecay: 0.1,
        dtype: 'bf16',
        recompute: 'full',
        count: 6_740_000_000,
      },
    ],
    hardware: {
      kind: 'gpus',
      gpu: 'H100-SXM-80GB',
      perNode: 8,
      nodes: 2,
      memoryBytes: 80 * 2 ** 30,
      hostMemoryBytes: null,
      network: 'ib-400',
    },
    parallel: { kind: 'fsdp2', shard: 'gradOp', world: 16 },
    training: {
      ...base.training,
      updates: 50_000,
      globalBatch: 256,
      microBatch: 16,
      accumulation: 1,
      schedule: { kind: 'linear', warmup: 1_500, floor: 0.1 },
      validateEvery: 1_000,
    },
    checkpoint: { every: 1_000, keep: 3 },
    track: [{ kind: 'jsonl' }, { kind: 'wandb', project: 'openvla', entity: 'team' }],
    evaluate: null,
    exports: [{ kind: 'hf', dtype: 'bf16' }],
    launch: [
      { kind: 'torchrun' },
      {
        kind: 'slurm',
        partition: 'gpu',
        time: '24:00:00',
        account: 'robots',
        requeue: true,
        setup: ['module load cuda/12.8'],
      },
    ],
    suppressed: [{ rule: 'VLA123', reason: 'measured on our cluster' }],
  }
}

/** LoRA under DDP, the head of OpenVLA-OFT, a frozen tower, float64 nowhere. */
function lora(): ComposedPipeline {
  const base = openvla()
  return {
    ...base,
    name: 'openvla-lora',
    model: {
      ...base.model,
      action: { decoder: 'regression', chunk: 8, hidden: 4096, blocks: 2, queries: 'zero', slots: 7 },
      stateDim: 8,
    },
    datasets: base.datasets.map((dataset) => ({
      ...dataset,
      state: 'observation.state',
      holdout: [],
      selected: [3, 5, 8],
    })),
    modules: [
      {
        ...moduleDefaults,
        name: 'vision',
        parameters: ['vision_backbone.*'],
        lr: null,
        dtype: 'bf16',
        storage: 'bf16',
        freeze: [{ from: 0, trains: 'none', rewarm: 0 }],
      },
      { ...moduleDefaults, name: 'projector', parameters: ['projector.*', 'state_projector.*'] },
      {
        ...moduleDefaults,
        name: 'language',
        parameters: ['language_model.*'],
        blocks: ['language_model.model.layers.*'],
        liveBlocks: [32],
        lr: 5e-4,
        dtype: 'bf16',
        storage: 'bf16',
        adapt: { kind: 'lora', rank: 32, alpha: 16, dropout: 0.05, targets: ['q_proj', 'v_proj'] },
        adapterCount: 110_828_288,
      },
      { ...moduleDefaults, name: 'action', parameters: ['action_head.*'] },
    ],
    hardware: {
      kind: 'gpus',
      gpu: 'RTX-4090',
      perNode: 1,
      nodes: 1,
      memoryBytes: { unknown: true, because: 'not in the catalog' },
      hostMemoryBytes: null,
      network: null,
    },
    parallel: { kind: 'ddp', world: 1 },
    training: { ...base.training, validateEvery: 0, accumulation: 16 },
    launch: [{ kind: 'slurm', partition: 'gpu', time: '2-00:00:00', account: null, requeue: false, setup: [] }],
    exports: [{ kind: 'lerobot', dtype: 'bf16' }],
  }
}

/** An own VLA with parts from several places: two cameras, two datasets, flow matching, fp64 in a module. */
function own(): ComposedPipeline {
  const base = small()
  const tower = firstOf(base.model.vision.towers)
  const dataset = firstOf(base.datasets)
  return {
    ...base,
    name: 'own-vla',
    model: {
      ...base.model,
      cameras: ['front', 'wrist'],
      vision: {
        towers: [
          { ...tower, name: 'vit_base_patch16_siglip_224', output: 'tokens', layer: -2, weights: './weights/siglip' },
          {
            ...tower,
            source: 'transformers',
            name: 'facebook/dinov2-base',
            revision: 'abc',
            output: 'tokens',
            layer: -1,
            weights: 'facebook/dinov2-base',
          },
          { ...tower, name: 'vit_tiny_patch16_224', output: 'tokens', layer: -2 },
        ],
        fuse: 'sequence',
      },
      projector: { kind: 'mlp', layers: 2 },
      language: { ...base.model.language, source: 'pretrained', name: './weights/llm', tokenizer: 'pretrained' },
      action: {
        decoder: 'flowMatching',
        attention: 'cross',
        chunk: 50,
        hidden: 256,
        layers: 4,
        heads: 4,
        steps: 10,
        timeAlpha: 1.5,
        timeBeta: 1,
      },
      mask: 'prefix',
    },
    datasets: [
      {
        ...dataset,
        name: 'arm_a',
        root: '../arm_a',
        weight: 3,
        cameras: { front: 'observation.images.cam_high', wrist: 'observation.images.cam_right' },
      },
      {
        ...dataset,
        name: 'arm_b',
        repo: 'org/arm_b',
        root: '/data/arm_b',
        weight: 0.5,
        cameras: { front: 'observation.images.main', wrist: 'observation.images.hand' },
        holdout: [],
      },
    ],
    modules: base.modules.map((module) => ({ ...module, dtype: 'fp64', storage: 'fp64' })),
    training: { ...base.training, optimizer: { ...base.training.optimizer, decayBiasAndNorm: true } },
    evaluate: null,
  }
}

/** A joint action expert beside a small trunk, on two processes. */
function joint(): ComposedPipeline {
  const base = small()
  const last = 'language_model.model.layers.1'
  return {
    ...base,
    name: 'joint',
    model: {
      ...base.model,
      action: {
        decoder: 'flowMatching',
        attention: 'joint',
        chunk: 8,
        hidden: 48,
        mlp: 192,
        layers: 2,
        heads: 4,
        keyValueHeads: 4,
        headDim: 32,
        steps: 10,
        timeAlpha: 1.5,
        timeBeta: 1,
      },
      mask: 'prefix',
    },
    modules: base.modules.map((module) => {
      switch (module.name) {
        case 'projector':
          return { ...module, parameters: ['projector.*'] }
        case 'language':
          return { ...module, dead: [`${last}.self_attn.q_proj.*`, `${last}.mlp.*`, 'language_model.model.norm.*'] }
        case 'action':
          return { ...module, blocks: ['action_head.transformer.layers.*'], liveBlocks: [2], recompute: 'full' }
        default:
          return module
      }
    }),
  }
}

export const plans = { small, bare, openvla, lora, own, joint } as const
