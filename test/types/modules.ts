/** Pipelines that grow: what types cost is measured with them. */

/** A pipeline whose policy has `count` modules, each with every option. */
export function pipelineOf(count: number): string {
  const names = Array.from({ length: count }, (_, index) => `part${String(index)}`)
  const patterns = names.map((name) => `${name}: { parameters: ['${name}.*'], blocks: ['${name}.layers.*'] }`)
  const declared = names.map((name, index) => {
    const freeze = index % 2 === 0 ? `until('50%', { thenTrain: lastLayers(2) })` : `[phase({ from: 0, train: 'all' })]`
    return `${name}: { lr: 1e-4, weightDecay: 0.1, dtype: 'bf16', storage: 'fp32', recompute: 'full', freeze: ${freeze}, adapt: lora({ rank: 8 }) }`
  })
  return `import { defineVLAPipeline, gpus, lastLayers, lerobot, lerobotDataset, lerobotPolicy, lora, phase, until } from 'vla-pipeline'
export default defineVLAPipeline({
  name: 'many',
  model: lerobotPolicy({ type: 'mine', cameras: ['front'], chunk: 8, modules: { rest: { parameters: ['*'] }, ${patterns.join(', ')} } }),
  data: lerobotDataset({ root: 'data' }),
  cameras: { front: 'observation.images.front' },
  hardware: gpus('L4'),
  modules: { ${declared.join(',\n')} },
  training: { updates: 10, globalBatch: 2, microBatch: 1, lr: 1e-4 },
  export: [lerobot()],
})`
}
