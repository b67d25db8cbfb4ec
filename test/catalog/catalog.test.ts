import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'

import { findGpu, gpuNames, gpuTable } from '../../sdk/catalog/gpus.ts'
import { causalLM, jointExpert, languageFamilies } from '../../sdk/catalog/language.ts'
import { pi0 } from '../../sdk/catalog/lerobot/pi0.ts'
import { modelModules, type ModelDescription } from '../../sdk/catalog/model.ts'
import { openvla, openvlaLora } from '../../sdk/catalog/openvla.ts'
import {
  adaptedLayers,
  adapterElements,
  elements,
  fnmatch,
  matchesAny,
  type Parameter,
} from '../../sdk/catalog/parameters.ts'
import { timmTable, timmTower, type TowerFacts } from '../../sdk/catalog/timm.ts'
import { transformersTower } from '../../sdk/catalog/transformers-vision.ts'
import { pythonVersions } from '../../sdk/catalog/versions.ts'

// Names and shapes are compared with the real classes in test/python/modeling/test_catalog.py.

function tower(name: string, choices = {}): TowerFacts {
  const facts = timmTower(name, choices)
  if ('problem' in facts) throw new Error(facts.message)
  return facts
}

const unknown = { unknown: true, because: 'x' } as const
const openvlaModel: ModelDescription = {
  vision: {
    fuse: 'channels',
    towers: openvla.vision.towers.map((declared) => ({
      ...tower(declared.name, declared),
      source: 'timm',
      name: declared.name,
      options: {},
    })),
  },
  projector: openvla.projector,
  language: { config: openvla.language.config, hidden: 4096, layers: 32, vocab: 32_064 },
  action: { decoder: 'tokens' },
  stateDim: 0,
  actionDim: 7,
}

describe('GPUs', () => {
  test('bf16 and fp8 follow the compute capability', () => {
    for (const name of gpuNames) {
      const gpu = findGpu(name)
      const capability = Number(gpu?.computeCapability)
      expect(gpu, name).toMatchObject({ bf16: capability >= 8, fp8: capability >= 8.9 })
      expect(gpu?.source, name).toMatch(/^https:\/\//)
    }
  })

  test.each([
    ['H100-SXM-80GB', 80 * 2 ** 30],
    ['V100-PCIE-16GB', 16 * 2 ** 30],
    ['T4', 16 * 2 ** 30],
  ] as const)('%s', (name, memoryBytes) => {
    expect(gpuTable[name].memoryBytes).toBe(memoryBytes)
  })

  test('a name that an object has by nature is no GPU', () => {
    expect(findGpu('toString')).toBeUndefined()
    expect(timmTower('constructor')).toMatchObject({ problem: 'unknown' })
    expect(causalLM({ model_type: 'valueOf' }, { head: true })).toBeUndefined()
  })
})

describe('OpenVLA', () => {
  const modules = modelModules(openvlaModel)
  const all = modules.flatMap(({ parameters }) => parameters ?? [])

  test('has its published number of parameters, and of dead ones', () => {
    expect(elements(all)).toBe(7_541_237_184)
    expect(openvla.parameters).toBe(7_541_237_184)
    const dead = modules.flatMap((module) =>
      (module.parameters ?? []).filter(({ name }) => matchesAny(name, module.dead)),
    )
    expect(elements(dead)).toBe(43_080_480)
    expect(openvla.dead).toBe(43_080_480)
  })

  test('by module', () => {
    expect(Object.fromEntries(modules.map(({ name, parameters }) => [name, elements(parameters ?? [])]))).toEqual({
      vision: 303_230_976 + 427_680_704,
      projector: 71_385_600,
      language: 6_738_939_904,
    })
  })

  test('each tower counts its live blocks', () => {
    expect(modules.map(({ name, blocks, liveBlocks }) => [name, blocks, liveBlocks])).toEqual([
      ['vision', ['vision_backbone.featurizer.blocks.*', 'vision_backbone.fused_featurizer.blocks.*'], [23, 26]],
      ['projector', [], []],
      ['language', ['language_model.model.layers.*'], [32]],
    ])
  })

  test('patterns partition the parameters', () => {
    for (const { name } of all)
      expect(
        modules.filter(({ patterns }) => matchesAny(name, patterns)),
        name,
      ).toHaveLength(1)
  })

  const adapters = (targets: (module: string) => readonly string[] | null): number =>
    modules
      .flatMap((module) => adaptedLayers(module.parameters ?? [], targets(module.name), module.dead))
      .reduce((sum, layer) => sum + adapterElements(layer, 32), 0)

  test('its published rank-32 adapters, with the published targets', () => {
    expect(adapters((module) => openvlaLora.targets[module as keyof typeof openvlaLora.targets])).toBe(110_828_288)
    expect(openvlaLora.parameters).toBe(110_828_288)
  })

  test('without targets, the live linears alone', () => {
    // Less one block of each tower, SigLIP's pooling head and the two patch embeddings: 12,582,912 / 24, 15,399,936 / 27, 607,232, 107,264.
    expect(adapters(() => null)).toBe(110_828_288 - 524_288 - 570_368 - 607_232 - 107_264)
  })
})

describe('towers', () => {
  test('sizes of the published ones', () => {
    expect(elements(tower('vit_large_patch14_reg4_dinov2.lvd142m', { imageSize: 224 }).parameters)).toBe(303_230_976)
    expect(elements(tower('vit_large_patch14_reg4_dinov2.lvd142m', { imageSize: 384 - 6 }).parameters)).toBe(
      303_715_328,
    )
    expect(elements(tower('vit_so400m_patch14_siglip_384').parameters)).toBe(428_225_600)
    expect(tower('vit_so400m_patch14_siglip_384')).toMatchObject({
      width: 1152,
      tokens: 729,
      imageSize: 384,
      liveBlocks: 26,
    })
  })

  test('a size of its own is described whether it is said or not, another must be a multiple of the patch', () => {
    const name = 'vit_so400m_patch14_siglip_384'
    expect(timmTower(name, { imageSize: 384 })).toEqual(timmTower(name))
    expect(timmTower(name, { imageSize: 392 })).toMatchObject({ tokens: 784 })
    expect(timmTower(name, { imageSize: 390 })).toMatchObject({ problem: 'imageSize' })
  })

  test('the last block is alive where its output is read', () => {
    expect(tower('vit_base_patch16_224', { layer: -1 })).toMatchObject({ dead: [], liveBlocks: 12 })
    expect(tower('vit_base_patch16_224', { layer: 11 })).toMatchObject({ dead: [], liveBlocks: 12 })
    expect(tower('vit_base_patch16_siglip_224', { layer: -1 })).toMatchObject({ dead: ['attn_pool.*'], liveBlocks: 12 })
    expect(tower('vit_base_patch16_224', { layer: 9 })).toMatchObject({
      dead: ['blocks.10.*', 'blocks.11.*', 'norm.*'],
      liveBlocks: 10,
    })
  })

  test('maps', () => {
    expect(tower('convnext_atto', { layer: 0, imageSize: 64 })).toMatchObject({
      width: 40,
      tokens: 256,
      output: 'map',
      liveBlocks: 2,
    })
    expect(tower('resnet18', { layer: 0 })).toMatchObject({ width: 64, blocks: null, liveBlocks: 0 })
    expect(tower('resnet18', { layer: -1 })).toMatchObject({ width: 512, layer: 4, blocks: 'layer*.*', liveBlocks: 8 })
  })

  test.each([
    ['vit_gigantic', {}, 'unknown', "The catalog does not describe the timm model 'vit_gigantic'."],
    ['resnet18.nobody', {}, 'tag', 'The catalog knows resnet18 with the tags a1_in1k'],
    ['resnet18', { output: 'tokens' }, 'output', 'resnet18 is a convolutional network'],
    ['test_vit', { output: 'map' }, 'output', 'test_vit is a vision transformer'],
    ['test_vit', { layer: 6 }, 'layer', 'test_vit has 6 blocks; 6 is none of them.'],
    ['test_vit', { layer: -7 }, 'layer', 'test_vit has 6 blocks; -7 is none of them.'],
    ['convnext_atto', { layer: 4 }, 'layer', 'convnext_atto has the maps 0 to 3; 4 is none of them.'],
    [
      'test_vit',
      { imageSize: 100 },
      'imageSize',
      'test_vit cuts images into patches of 16 pixels, which do not divide 100.',
    ],
  ] as const)('%s %j cannot be described', (name, choices, problem, message) => {
    const said = timmTower(name, choices)
    expect(said).toMatchObject({ problem })
    expect((said as { message: string }).message).toContain(message)
  })

  test('every architecture says where its pixels lie', () => {
    for (const name of Object.keys(timmTable)) expect(tower(name).mean).toHaveLength(3)
    expect(tower('vit_large_patch14_clip_224.openai').mean[0]).toBeCloseTo(0.48145466)
    expect(tower('vit_large_patch14_clip_224').mean).toEqual([0.5, 0.5, 0.5])
  })

  test('of transformers, the vision half of a two-tower config', () => {
    const vision_config = {
      model_type: 'siglip_vision_model',
      hidden_size: 1152,
      num_hidden_layers: 27,
      patch_size: 14,
    }
    const facts = transformersTower({ model_type: 'siglip', vision_config }, { imageSize: 224, layer: -2 })
    expect(facts).toMatchObject({ width: 1152, tokens: 256, liveBlocks: 26 })
    expect(
      transformersTower(
        { model_type: 'novel', hidden_size: 1, num_hidden_layers: 1, patch_size: 1 },
        { imageSize: 8, layer: -1 },
      ),
    ).toBeUndefined()
    expect(transformersTower({ model_type: 'dinov2', hidden_size: '1' }, { imageSize: 8, layer: -1 })).toBeUndefined()
  })
})

describe('language models', () => {
  test('published sizes', () => {
    const count = (config: Record<string, unknown>): number =>
      elements(causalLM(config, { head: true })?.parameters ?? [])
    expect(count({ model_type: 'llama' })).toBe(6_738_415_616)
    // Qwen/Qwen2.5-0.5B: 494 M with its tied head.
    expect(
      count({
        model_type: 'qwen2',
        hidden_size: 896,
        intermediate_size: 4864,
        num_hidden_layers: 24,
        num_attention_heads: 14,
        num_key_value_heads: 2,
        tie_word_embeddings: true,
      }),
    ).toBe(494_032_768)
    // google/gemma-2b.
    expect(
      count({
        model_type: 'gemma',
        hidden_size: 2048,
        intermediate_size: 16_384,
        num_hidden_layers: 18,
        num_attention_heads: 8,
        num_key_value_heads: 1,
      }),
    ).toBe(2_506_172_416)
  })

  test('a changed vocabulary, and a trunk without its head', () => {
    const config = {
      model_type: 'llama',
      hidden_size: 8,
      intermediate_size: 16,
      num_hidden_layers: 1,
      num_attention_heads: 2,
      vocab_size: 10,
    }
    expect(causalLM(config, { head: true, vocab: 12 })).toMatchObject({ vocab: 12, hidden: 8, layers: 1 })
    const names = (head: boolean) => causalLM(config, { head })?.parameters.map(({ name }) => name)
    expect(names(true)).toContain('lm_head.weight')
    expect(names(false)).not.toContain('lm_head.weight')
  })

  test('what is not known is undefined, never a guess', () => {
    expect(causalLM({ model_type: 'mamba' }, { head: true })).toBeUndefined()
    expect(causalLM({}, { head: true })).toBeUndefined()
    expect(causalLM({ model_type: 'llama', hidden_size: 'big' }, { head: true })).toBeUndefined()
    expect(causalLM({ model_type: 'llama', hidden_size: 10.5 }, { head: true })).toBeUndefined()
  })
})

describe('models of which something is not known', () => {
  test('keep what is', () => {
    const [vision, projector, language, action] = modelModules({
      ...openvlaModel,
      vision: {
        fuse: 'channels',
        towers: [
          { source: 'timm', name: 'novel', imageSize: 8, output: 'tokens', layer: -1, options: {}, width: unknown },
        ],
      },
      language: { config: unknown, hidden: unknown, layers: unknown, vocab: unknown },
      action: { decoder: 'regression', chunk: 2, hidden: unknown, blocks: 2, queries: 'learnable', slots: 1 },
      stateDim: unknown,
    })
    expect(vision).toMatchObject({ parameters: undefined, blocks: [], dead: [] })
    expect(projector).toMatchObject({ parameters: undefined, patterns: ['projector.*', 'state_projector.*'] })
    expect(language).toMatchObject({
      parameters: undefined,
      blocks: ['language_model.model.layers.*'],
      liveBlocks: [undefined],
    })
    expect(action).toMatchObject({ parameters: undefined, liveBlocks: [2] })
  })

  test("options of timm's constructor can change anything", () => {
    const [first] = openvlaModel.vision.towers
    if (first === undefined) throw new Error('no tower')
    const changed = {
      ...openvlaModel,
      vision: { fuse: 'channels' as const, towers: [{ ...first, options: { depth: 2 } }] },
    }
    expect(modelModules(changed)[0]?.parameters).toBeUndefined()
  })
})

describe('names and targets', () => {
  const layer = (name: string, kind: Parameter['layer'] = 'linear'): Parameter => ({
    name: `${name}.weight`,
    shape: [4, 3],
    layer: kind,
  })
  const parameters = [
    layer('a.q_proj'),
    layer('a.xq_proj'),
    layer('a.conv', 'conv'),
    layer('a.norm', 'other'),
    layer('b.q_proj'),
  ]
  const names = (targets: string[] | null, dead: string[] = []) =>
    adaptedLayers(parameters, targets, dead).map(({ name }) => name.replace('.weight', ''))

  test('a target is the end of a path, whole components', () => {
    expect(names(['q_proj'])).toEqual(['a.q_proj', 'b.q_proj'])
    expect(names(['a.q_proj'])).toEqual(['a.q_proj'])
    expect(names(['a.*'])).toEqual(['a.q_proj', 'a.xq_proj', 'a.conv'])
    expect(names(['norm'])).toEqual([])
  })

  test('without targets the live linears', () => {
    expect(names(null, ['b.*'])).toEqual(['a.q_proj', 'a.xq_proj'])
  })

  test('adapters of a linear and of a convolution', () => {
    expect(adapterElements({ name: 'a', shape: [5, 3], layer: 'linear' }, 2)).toBe(16)
    expect(adapterElements({ name: 'a', shape: [5, 3, 7, 7], layer: 'conv' }, 2)).toBe(2 * (5 + 3 * 49))
  })

  test("fnmatch as Python's: a star crosses dots, nothing else is special", () => {
    expect(fnmatch('a.*').test('a.b.c')).toBe(true)
    expect(fnmatch('a.b').test('axb')).toBe(false)
    expect(fnmatch('a?c').test('abc')).toBe(true)
    expect(fnmatch('a+(b)').test('a+(b)')).toBe(true)
  })
})

test('the lock file of generated projects has the versions that the catalog was checked with', () => {
  const lock = readFileSync(new URL('../../templates/runtime/requirements.lock', import.meta.url), 'utf8').split('\n')
  for (const [name, version] of Object.entries(pythonVersions)) {
    expect(
      lock.some((line) => line.startsWith(`${name}==${version}`)),
      name,
    ).toBe(true)
  }
})

describe('a joint expert', () => {
  const trunk = { model_type: 'gemma', hidden_size: 2048, num_hidden_layers: 18, num_attention_heads: 8 }

  test("of pi0's sizes is pi0's expert", () => {
    const config = { ...trunk, intermediate_size: 16_384, num_key_value_heads: 1, head_dim: 256 }
    const own = jointExpert(config, { hidden: 1024, mlp: 4096 })
    const description = { config: {}, cameras: ['front'], imageSizes: {}, stateDim: 32, actionDim: 32 }
    const root = 'model.paligemma_with_expert.gemma_expert.model.'
    const published = pi0(description).modules.flatMap(({ parameters }) => parameters ?? [])
    const sorted = (parameters: readonly Parameter[], prefix: string) =>
      parameters
        .filter(({ name }) => name.startsWith(prefix))
        .map(({ name, shape }) => `${name.slice(prefix.length)} ${shape.join('x')}`)
        .sort()
    expect(sorted(own ?? [], 'transformer.')).toEqual(sorted(published, root))
    expect(elements(own ?? [])).toBe(311_464_960)
  })

  test('leaves of the trunk what nothing reads', () => {
    const dead = (config: Readonly<Record<string, unknown>>) => causalLM(config, { head: false })?.behindKeys
    const last = 'model.layers.17'
    expect(dead(trunk)).toEqual([
      `${last}.self_attn.q_proj.*`,
      `${last}.self_attn.o_proj.*`,
      `${last}.mlp.*`,
      `${last}.post_attention_layernorm.*`,
      'model.norm.*',
    ])
    expect(dead({ ...trunk, model_type: 'qwen3' })).toContain(`${last}.self_attn.q_norm.*`)
    expect(dead({ ...trunk, model_type: 'gemma2' })).toContain(`${last}.post_feedforward_layernorm.*`)
  })

  test('is not described beside an unknown trunk', () => {
    expect(jointExpert({ model_type: 'gpt2' }, { hidden: 8, mlp: 8 })).toBeUndefined()
    expect(languageFamilies).toEqual(['gemma', 'gemma2', 'llama', 'mistral', 'qwen2', 'qwen3'])
  })
})
