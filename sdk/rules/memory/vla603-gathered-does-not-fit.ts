import { gibibytes } from '../facts.ts'
import { BYTES, stateBytes } from '../memory.ts'
import { defineRule } from '../rule.ts'

export const gatheredDoesNotFit = defineRule({
  id: 'VLA603',
  name: 'gathered-does-not-fit',
  area: 'memory',
  severity: 'error',
  since: '0.1.0',
  summary: "Under shard: 'gradOp' the gathered model fits into each GPU beside the shards.",
  why: 'Parameters stay gathered from the forward pass to the backward pass: at its end every GPU holds the whole model in its compute dtype.',
  fix: "Use shard: 'full', which frees each block after its forward pass.",
  suppress: { allowed: false, because: 'The failure is certain: this is arithmetic, not a forecast.' },
  sources: [
    {
      title: 'torch 2.11, fully_shard',
      at: 'https://docs.pytorch.org/docs/2.11/distributed.fsdp.fully_shard.html',
      locator: 'reshard_after_forward=False keeps the unsharded parameters in memory until backward',
    },
  ],
  messages: {
    large:
      "With shard: 'gradOp' each GPU holds {need}: the whole model gathered ({gathered}) beside its shards; {gpu} has {have}.",
  },
  valid: [
    {
      caption: 'Resharded after each block.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),\ncameras: { primary: 'observation.image' },\nhardware: gpus('RTX-4090', { perNode: 8 }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 1 },\nparallel: fsdp2({ shard: 'full' }),`,
    },
  ],
  invalid: [
    {
      caption: '14 GiB gathered beside 11 GiB of shards on 24 GiB.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),\ncameras: { primary: 'observation.image' },\nhardware: gpus('RTX-4090', { perNode: 8 }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 1 },\nparallel: fsdp2({ shard: 'gradOp' }),`,
    },
  ],
  check({ plan, known, path, report }) {
    const { hardware, parallel } = plan
    if (hardware.kind !== 'gpus' || parallel.kind !== 'fsdp2' || parallel.shard !== 'gradOp' || parallel.world === 1)
      return
    const memory = known(hardware.memoryBytes)
    const { weights, gradients, moments } = stateBytes(plan, known)
    if ((weights + gradients + moments) / parallel.world > memory) return // said by VLA601
    const gathered = plan.modules.reduce((sum, module) => sum + known(module.count) * BYTES[module.dtype], 0)
    // Gradients are gone when the next forward pass ends; weights and moments are not.
    const need = (weights + moments) / parallel.world + gathered
    if (need <= memory) return
    const at = ['parallel', 'shard']
    report({
      message: 'large',
      at,
      data: { need: gibibytes(need), gathered: gibibytes(gathered), gpu: hardware.gpu, have: gibibytes(memory) },
      related: [{ at: ['hardware', 'gpu'], note: 'the GPU' }],
      fixes: [{ label: "Use shard: 'full'", kind: 'safe', edits: [{ kind: 'set', path: path(at), value: 'full' }] }],
    })
  },
})
