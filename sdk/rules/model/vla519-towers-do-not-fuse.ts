import { defineRule } from '../rule.ts'

export const towersDoNotFuse = defineRule({
  id: 'VLA519',
  name: 'towers-do-not-fuse',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: 'Fused towers give features of one kind and, where they meet, of one size.',
  why: 'Tensors of different shapes cannot be concatenated: the first forward pass raises.',
  fix: 'Choose towers, image sizes or layers whose outputs fit, or one tower.',
  suppress: { allowed: false, because: 'The failure is certain: the shapes do not fit.' },
  sources: [
    {
      title: 'Prismatic',
      at: 'prismatic/models/backbones/vision/dinosiglip_vit.py',
      locator: 'forward: torch.cat([dino_patches, siglip_patches], dim=2)',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/modeling/vision.py', locator: 'VisionBackbone' },
  ],
  messages: {
    kinds: "'{first}' gives {firstKind}, '{second}' gives {secondKind}: the two cannot be fused.",
    tokens:
      "'{first}' gives {firstTokens} tokens per image, '{second}' gives {secondTokens}: fused on channels they have to agree.",
    widths:
      "'{first}' has {firstWidth} channels, '{second}' has {secondWidth}: concatenated in sequence they share one projector and have to agree.",
  },
  valid: [
    {
      caption: 'Two towers with 16 tokens each.',
      code: `model: composed({ cameras: ['front'], vision: fused([timmVision('vit_tiny_patch16_224', { imageSize: 64 }), timmVision('vit_small_patch16_224', { imageSize: 64 })]), projector: fusedMlp(), language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: '16 and 36 tokens.',
      code: `model: composed({ cameras: ['front'], vision: fused([timmVision('vit_tiny_patch16_224', { imageSize: 64 }), timmVision('vit_small_patch16_224', { imageSize: 96 })]), projector: fusedMlp(), language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: 'Tokens and a map.',
      code: `model: composed({ cameras: ['front'], vision: fused([timmVision('vit_tiny_patch16_224', { imageSize: 64 }), timmVision('convnext_atto', { imageSize: 64 })]), projector: fusedMlp(), language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: '192 and 384 channels in sequence.',
      code: `model: composed({ cameras: ['front'], vision: fused([timmVision('vit_tiny_patch16_224', { imageSize: 64 }), timmVision('vit_small_patch16_224', { imageSize: 64 })], { on: 'sequence' }), projector: mlp({ layers: 2 }), language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, known, path, report }) {
    if (plan.model.family === 'lerobot') return
    const { towers, fuse } = plan.model.vision
    const [first, ...others] = towers
    if (first === undefined) return
    const index = others.findIndex((tower) => tower.output !== first.output)
    const odd = others[index]
    const at = (tower: number): (string | number)[] => ['model', 'vision', 'towers', tower]
    const related = [{ at: at(0), path: path(at(0)), note: 'the first tower' }]
    if (odd !== undefined) {
      const kind = (output: 'tokens' | 'map'): string => (output === 'map' ? 'a feature map' : 'patch tokens')
      report({
        message: 'kinds',
        at: at(index + 1),
        data: { first: first.name, firstKind: kind(first.output), second: odd.name, secondKind: kind(odd.output) },
        related,
      })
      return
    }
    for (const [number, tower] of others.entries()) {
      if (fuse === 'channels' && known(tower.tokens) !== known(first.tokens)) {
        report({
          message: 'tokens',
          at: at(number + 1),
          data: {
            first: first.name,
            firstTokens: known(first.tokens),
            second: tower.name,
            secondTokens: known(tower.tokens),
          },
          related,
        })
      }
      if (fuse === 'sequence' && known(tower.width) !== known(first.width)) {
        report({
          message: 'widths',
          at: at(number + 1),
          data: {
            first: first.name,
            firstWidth: known(first.width),
            second: tower.name,
            secondWidth: known(tower.width),
          },
          related,
        })
      }
    }
  },
})
