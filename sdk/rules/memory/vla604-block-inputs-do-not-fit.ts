import { everTrains, gibibytes } from '../facts.ts'
import { BYTES, stateBytes } from '../memory.ts'
import { defineRule } from '../rule.ts'
import { actionTokens, observedTokens } from '../sequence.ts'

export const blockInputsDoNotFit = defineRule({
  id: 'VLA604',
  name: 'block-inputs-do-not-fit',
  area: 'memory',
  severity: 'error',
  since: '0.1.0',
  summary: "What the backward pass needs of the trunk in any case fits beside the training state: each block's input.",
  why: 'Even with recompute the input of every block is kept until the backward pass has gone through it: samples x tokens x width x blocks. It is the smallest that activations can be, and it does not fit.',
  fix: 'Use a smaller micro-batch; the global batch is made up by accumulation.',
  suppress: { allowed: false, because: 'The first forward pass runs out of memory.' },
  sources: [
    {
      title: 'Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost',
      at: 'https://arxiv.org/abs/1604.06174',
      locator: 'section 4: checkpoints at the borders of segments are kept',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/recompute.py', locator: 'add_recompute' },
  ],
  messages: {
    large:
      'The inputs of the {layers} blocks of the trunk take {inputs} per GPU for {micro} samples of {tokens} tokens, beside a training state of {state}; {gpu} has {have}.',
  },
  valid: [
    {
      caption: 'Sixteen samples.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
training: { updates: 1_000, globalBatch: 256, microBatch: 16 },`,
    },
  ],
  invalid: [
    {
      caption: 'The global batch in the place of the micro-batch.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
training: { updates: 1_000, globalBatch: 8_192, microBatch: 1_024 },`,
      lock: { datasets: { 'data/reach': { frames: 600_000, episodes: 10_000 } } },
    },
  ],
  check({ plan, known, path, report }) {
    const { hardware, parallel, model, training } = plan
    if (hardware.kind !== 'gpus' || model.family === 'lerobot') return
    const trunk = plan.modules.find(({ name }) => name === 'language')
    // Nothing is kept where neither the trunk nor anything below it trains.
    const flows = plan.modules.some((module) => module.name !== 'action' && everTrains(module, training.updates))
    if (trunk === undefined || !flows) return
    const tokens = observedTokens(model, known) + actionTokens(model, known)
    const layers = known(model.language.layers)
    const perSample = tokens * known(model.language.hidden) * BYTES[trunk.dtype] * layers
    const memory = known(hardware.memoryBytes)
    const { weights, gradients, moments } = stateBytes(plan, known)
    const state = (weights + gradients + moments) / (parallel.kind === 'fsdp2' ? parallel.world : 1)
    if (state > memory || state + perSample * training.microBatch <= memory) return // a state that does not fit is VLA601 or VLA602
    const most = Math.floor((memory - state) / perSample)
    const at = ['training', 'microBatch']
    const divisor = largestDivisor(training.globalBatch / parallel.world, most)
    report({
      message: 'large',
      at,
      data: {
        layers,
        inputs: gibibytes(perSample * training.microBatch),
        micro: training.microBatch,
        tokens,
        state: gibibytes(state),
        gpu: hardware.gpu,
        have: gibibytes(memory),
      },
      fix:
        divisor === undefined
          ? 'Use a smaller micro-batch, more GPUs, or adapt with lora.'
          : `At most ${String(most)} samples fit, and other activations come on top: microBatch: ${String(divisor)} or less divides the global batch.`,
      related: [{ at: ['hardware', 'gpu'], note: 'the GPU' }],
      fixes:
        divisor === undefined
          ? []
          : [
              {
                label: `Set microBatch to ${String(divisor)}`,
                kind: 'suggestion',
                edits: [{ kind: 'set', path: path(at), value: divisor }],
              },
            ],
    })
  },
})

/** The largest divisor of `total` that is at most `limit`; undefined where there is none. */
function largestDivisor(total: number, limit: number): number | undefined {
  if (!Number.isInteger(total)) return undefined
  for (let divisor = Math.min(limit, total); divisor > 0; divisor -= 1) if (total % divisor === 0) return divisor
  return undefined
}
