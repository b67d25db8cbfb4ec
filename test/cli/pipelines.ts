/** A small pipeline whose dataset is the one that `writeDataset` writes to data/arm. */
export function tinyPipeline(changes: { batch?: number | string; more?: string; head?: string } = {}): string {
  return `${changes.head ?? ''}import { causalLM, composed, cpus, defineVLAPipeline, lerobotDataset, linear, regression, timmVision, torchrun } from 'vla-pipeline'

const width: number = 64

export default defineVLAPipeline({
  name: 'tiny',
  model: composed({
    cameras: ['front'],
    vision: timmVision('vit_tiny_patch16_224', { imageSize: width }),
    projector: linear(),
    language: causalLM({ config: { model_type: 'llama', hidden_size: width, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 2 } }),
    action: regression({ chunk: 4 }),
  }),
  data: lerobotDataset({ root: 'data/arm' }),
  cameras: { front: 'observation.image' },
  hardware: cpus({ processes: 2 }),
  training: { updates: 100, globalBatch: ${String(changes.batch ?? 8)}, microBatch: 4, lr: 1e-3 },
  checkpoint: { every: 50 },
  launch: [torchrun()],
  ${changes.more ?? ''}
})
`
}
