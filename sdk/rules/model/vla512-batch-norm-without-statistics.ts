import { defineRule } from '../rule.ts'

/** Families of timm whose blocks normalise by batch. */
const BATCH_NORM =
  /^(seresnet|resnet|resnext|wide_resnet|regnet|mobilenet|efficientnet|tf_efficientnet|mnasnet|densenet|inception|xception|hrnet|repvgg|ghostnet|dla|vgg\d+_bn)/

export const batchNormWithoutStatistics = defineRule({
  id: 'VLA512',
  name: 'batch-norm-without-statistics',
  area: 'model',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A tower with BatchNorm starts from pretrained weights.',
  why: 'Batch norms keep their stored statistics while training, since those of a micro-batch would make the gradient depend on how the batch is cut. Without pretrained weights these are mean 0 and variance 1: the network is not normalised at all.',
  fix: "Give the tower `weights`, or norm: 'group' to replace BatchNorm by GroupNorm.",
  suppress: { allowed: true, when: 'You have trained this network without normalisation before.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/vision.py',
      locator: 'VisionBackbone.train: batch norms stay in evaluation mode',
    },
    {
      title: 'Chi et al. 2023, Diffusion Policy',
      at: 'https://arxiv.org/abs/2303.04137',
      locator: 'section IV-A: BatchNorm replaced by GroupNorm for stable training',
    },
  ],
  messages: { bare: "The tower '{tower}' normalises by batch and starts without statistics." },
  valid: [
    {
      caption: 'GroupNorm.',
      code: `model: composed({ cameras: ['front'], vision: timmVision('resnet18', { imageSize: 64, output: 'map', layer: 2, norm: 'group' }), projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
    { caption: 'A tower without BatchNorm.', code: `name: 'layer-norm',` },
  ],
  invalid: [
    {
      caption: 'A ResNet from the seed.',
      code: `model: composed({ cameras: ['front'], vision: timmVision('resnet18', { imageSize: 64, output: 'map', layer: 2 }), projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, each, path, report }) {
    if (plan.model.family === 'lerobot' || plan.model.weights !== null) return
    each(plan.model.vision.towers, (tower, index) => {
      if (tower.source !== 'timm' || tower.norm !== 'native' || tower.weights !== null || !BATCH_NORM.test(tower.name))
        return
      const at = ['model', 'vision', 'towers', index, 'norm']
      report({
        message: 'bare',
        at: ['model', 'vision', 'towers', index, 'name'],
        path: [...path(['model', 'vision', 'towers', index]), 'name'],
        data: { tower: tower.name },
        fixes: [
          { label: "Use norm: 'group'", kind: 'suggestion', edits: [{ kind: 'set', path: path(at), value: 'group' }] },
        ],
      })
    })
  },
})
