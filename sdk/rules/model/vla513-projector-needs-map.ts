import { defineRule } from '../rule.ts'

export const projectorNeedsMap = defineRule({
  id: 'VLA513',
  name: 'projector-needs-map',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: 'spatialSoftArgmax reads a feature map.',
  why: 'Key points are places in a map [channels, height, width]; a tower that gives patch tokens has no such axes.',
  fix: "Use a convolutional tower (output: 'map'), or another projector (linear, mlp, fusedMlp).",
  suppress: { allowed: false, because: 'The failure is certain: the shapes do not fit.' },
  sources: [
    {
      title: 'Levine et al. 2016, End-to-End Training of Deep Visuomotor Policies',
      at: 'https://arxiv.org/abs/1504.00702',
      locator: 'section 4.2: spatial soft arg-max over the last convolution',
    },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/projectors.py',
      locator: 'SpatialSoftArgmax.key_points',
    },
  ],
  messages: { tokens: "spatialSoftArgmax reads a feature map, but '{tower}' gives patch tokens." },
  valid: [{ caption: 'A map.', code: `name: 'map',` }],
  invalid: [
    {
      caption: 'A vision transformer.',
      code: `model: composed({ cameras: ['front'], vision: timmVision('vit_tiny_patch16_224', { imageSize: 64 }), projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, path, report }) {
    if (plan.model.family === 'lerobot' || plan.model.projector.kind !== 'spatialSoftArgmax') return
    const index = plan.model.vision.towers.findIndex((tower) => tower.output === 'tokens')
    const tower = plan.model.vision.towers[index]
    if (tower === undefined) return
    report({
      message: 'tokens',
      at: ['model', 'projector'],
      path: ['model', 'projector'],
      data: { tower: tower.name },
      related: [{ at: ['model', 'vision', 'towers', index], note: 'the tower' }],
      fixes: [
        {
          label: 'Use linear()',
          kind: 'suggestion',
          edits: [{ kind: 'set', path: path(['model', 'projector']), value: { kind: 'linear' } }],
        },
      ],
    })
  },
})
