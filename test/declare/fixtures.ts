import { causalLM, composed, cpus, lerobotDataset, linear, regression, timmVision } from '../../sdk/index.ts'

/** The smallest pipeline; tests change parts of it. */
export const smallest = {
  name: 'smallest',
  model: composed({
    cameras: ['front', 'wrist'],
    vision: timmVision('test_vit'),
    projector: linear(),
    language: causalLM({ config: { model_type: 'llama' } }),
    action: regression({ chunk: 8 }),
  }),
  data: lerobotDataset({ root: 'data' }),
  hardware: cpus({ processes: 2 }),
  training: { updates: 10, globalBatch: 4, microBatch: 2 },
}
