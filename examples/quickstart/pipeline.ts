import {
  causalLM,
  composed,
  cosine,
  cpus,
  defineVLAPipeline,
  hf,
  lerobot,
  lerobotDataset,
  regression,
  simulation,
  spatialSoftArgmax,
  tensorboard,
  timmVision,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'quickstart',
  model: composed({
    cameras: ['front'],
    // A small convolutional tower whose key points tell the policy where things are.
    vision: timmVision('convnext_atto', { imageSize: 64, output: 'map', layer: 0 }),
    projector: spatialSoftArgmax({ points: 32 }),
    language: causalLM({
      config: {
        model_type: 'llama',
        hidden_size: 128,
        intermediate_size: 256,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 4,
      },
    }),
    state: true,
    action: regression({ chunk: 8 }),
  }),
  // record.py writes this dataset: python record.py --task reach-v3 --task drawer-close-v3
  data: lerobotDataset({ root: 'data/metaworld', holdout: [0, 1] }),
  cameras: { front: 'observation.image' },
  normalize: { state: 'meanStd', action: 'minMax' },
  hardware: cpus({ processes: 2 }),
  modules: {
    vision: { lr: 1e-3, weightDecay: 0 },
    projector: { lr: 1e-3 },
    language: { lr: 5e-4 },
    action: { lr: 1e-3 },
  },
  training: {
    updates: 600,
    globalBatch: 64,
    microBatch: 32,
    weightDecay: 0.01,
    schedule: cosine({ warmup: '3%' }),
    clip: 1,
    seed: 7,
    validateEvery: 100,
  },
  checkpoint: { every: 200, keep: 2 },
  track: [tensorboard()],
  evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], episodes: 5, maxSteps: 100, imageSize: 64 }),
  export: [hf(), lerobot()],
  launch: [torchrun()],
})
