import { ddp, defineVLAPipeline, gpus, hf, lastLayers, lerobotDataset, openvla, until } from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-kitchen',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d' }),
  data: lerobotDataset({ repo: 'lab/kitchen', revision: 'v3.0' }),
  cameras: { primary: 'observation.images.front' },
  hardware: gpus('A100-SXM-80GB', { perNode: 8 }),
  modules: {
    vision: { lr: 2e-6, freeze: until('75%', { thenTrain: lastLayers(6) }) },
    projector: { lr: 1e-4 },
    language: { lr: 2e-5 },
  },
  parallel: ddp(),
  training: { updates: 50_000, globalBatch: 250, microBatch: 16, seed: 7 },
  checkpoint: { every: 1_000 },
  export: [hf()],
})
