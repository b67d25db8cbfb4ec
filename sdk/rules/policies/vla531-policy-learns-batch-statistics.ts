import { findPolicy } from '../../catalog/lerobot/index.ts'
import { defineRule } from '../rule.ts'

export const policyLearnsBatchStatistics = defineRule({
  id: 'VLA531',
  name: 'policy-learns-batch-statistics',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'A policy with batch normalisation has its statistics frozen, or normalises by groups.',
  why: "Each process would normalise by its own micro-batch: a sample's gradient depends on its neighbours, the running statistics differ between processes, and only the first process's are saved.",
  fix: "Use group normalisation, or batchNorm: 'frozen', which keeps the statistics as they are loaded.",
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'PyTorch',
      at: 'torch/nn/parallel/distributed.py',
      locator: 'DistributedDataParallel: buffers are broadcast from rank 0, never reduced',
    },
    {
      title: 'LeRobot',
      at: 'lerobot/policies/diffusion/modeling_diffusion.py',
      locator: 'DiffusionRgbEncoder: use_group_norm replaces BatchNorm2d',
    },
  ],
  messages: { learns: "'{layers}' of {policy} would learn its statistics from each micro-batch of each process." },
  valid: [
    {
      caption: 'Group normalisation.',
      code: `model: diffusion({ cameras: ['front'], chunk: 16, config: { use_group_norm: true, pretrained_backbone_weights: null, crop_shape: null } }),`,
    },
  ],
  invalid: [
    {
      caption: 'Batch normalisation in the image encoder.',
      code: `model: diffusion({ cameras: ['front'], chunk: 16, config: { use_group_norm: false, pretrained_backbone_weights: null, crop_shape: null } }),`,
    },
  ],
  check({ plan, report }) {
    const { model } = plan
    if (model.family !== 'lerobot' || model.batchNorm === 'frozen') return
    const [layers] = findPolicy(model.type)?.describe(model).batchNorm ?? []
    if (layers === undefined) return
    report({
      message: 'learns',
      at: ['model', 'batchNorm'],
      path: ['model'],
      data: { layers, policy: model.type },
      fixes: [
        {
          label: "Freeze them with batchNorm: 'frozen'",
          kind: 'suggestion',
          edits: [{ kind: 'set', path: ['model', 'batchNorm'], value: 'frozen' }],
        },
      ],
    })
  },
})
