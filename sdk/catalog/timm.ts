/**
 * Vision towers of timm 1.0.31 by architecture name: sizes, pixel statistics, parameters.
 * Source: the model definitions in timm/models (vision_transformer.py, resnet.py, convnext.py); names and shapes are held equal to the
 * real classes by a test.
 */
import { convLayer, linearLayer, normLayer, tensor, vector, type Parameter } from './parameters.ts'

type Triple = readonly [number, number, number]

/** Mean and standard deviation of the pixels, [0, 1], as timm's pretrained configs have them (timm/data/constants.py). */
const pixelStatistics = {
  imagenet: { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] },
  half: { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] },
  clip: { mean: [0.48145466, 0.4578275, 0.40821073], std: [0.26862954, 0.26130258, 0.27577711] },
} as const satisfies Record<string, { mean: Triple; std: Triple }>

interface Common {
  readonly imageSize: number
  readonly pixels: keyof typeof pixelStatistics
  /** Pretrained tags that share these pixel statistics and this size. The first is timm's default. */
  readonly tags: readonly string[]
  /** Tags with other pixel statistics. */
  readonly otherTags?: Readonly<Record<string, keyof typeof pixelStatistics>>
}
interface Vit extends Common {
  readonly family: 'vit'
  readonly width: number
  readonly depth: number
  readonly hidden: number // of the MLP
  readonly patch: number
  readonly classToken?: true
  readonly registers?: number
  readonly separatePrefix?: true // the position table has no rows for class and register tokens
  readonly preNorm?: true // CLIP: norm before the blocks, patch embedding without bias
  readonly layerScale?: true
  readonly attentionPool?: true // SigLIP's pooling head
}
interface Resnet extends Common {
  readonly family: 'resnet'
  readonly block: 'basic' | 'bottleneck'
  readonly layers: readonly [number, number, number, number]
  readonly stem: 'plain' | 'tiered'
}
interface Convnext extends Common {
  readonly family: 'convnext'
  readonly depths: readonly [number, number, number, number]
  readonly dims: readonly [number, number, number, number]
  readonly convMlp: boolean // MLPs as 1x1 convolutions: nothing for adapters of linear layers
}

const dinov2 = {
  family: 'vit',
  imageSize: 518,
  pixels: 'imagenet',
  tags: ['lvd142m'],
  patch: 14,
  classToken: true,
  layerScale: true,
} as const
const registers = { ...dinov2, registers: 4, separatePrefix: true } as const
const small = { width: 384, depth: 12, hidden: 1536 } as const
const base = { width: 768, depth: 12, hidden: 3072 } as const
const large = { width: 1024, depth: 24, hidden: 4096 } as const
const so400m = { width: 1152, depth: 27, hidden: 4304 } as const
const siglip = { family: 'vit', pixels: 'half', attentionPool: true } as const
const clip = { family: 'vit', classToken: true, preNorm: true } as const
const augreg = { family: 'vit', pixels: 'half', imageSize: 224, patch: 16, classToken: true } as const
const convnext = { family: 'convnext', imageSize: 224, pixels: 'imagenet' } as const
const resnet = { family: 'resnet', imageSize: 224, pixels: 'imagenet', stem: 'plain' } as const

export const timmTable = {
  vit_small_patch14_reg4_dinov2: { ...registers, ...small },
  vit_base_patch14_reg4_dinov2: { ...registers, ...base },
  vit_large_patch14_reg4_dinov2: { ...registers, ...large },
  vit_small_patch14_dinov2: { ...dinov2, ...small },
  vit_base_patch14_dinov2: { ...dinov2, ...base },
  vit_large_patch14_dinov2: { ...dinov2, ...large },
  vit_so400m_patch14_siglip_224: { ...siglip, ...so400m, patch: 14, imageSize: 224, tags: ['v2_webli', 'webli'] },
  vit_so400m_patch14_siglip_378: {
    ...siglip,
    ...so400m,
    patch: 14,
    imageSize: 378,
    tags: ['v2_webli', 'webli', 'webli_ft_in1k'],
  },
  vit_so400m_patch14_siglip_384: { ...siglip, ...so400m, patch: 14, imageSize: 384, tags: ['webli'] },
  vit_base_patch16_siglip_224: { ...siglip, ...base, patch: 16, imageSize: 224, tags: ['v2_webli', 'webli'] },
  vit_base_patch16_siglip_256: {
    ...siglip,
    ...base,
    patch: 16,
    imageSize: 256,
    tags: ['v2_webli', 'webli', 'webli_i18n'],
  },
  vit_base_patch16_siglip_384: { ...siglip, ...base, patch: 16, imageSize: 384, tags: ['v2_webli', 'webli'] },
  vit_base_patch16_clip_224: {
    ...clip,
    ...base,
    patch: 16,
    imageSize: 224,
    pixels: 'clip',
    tags: [
      'laion2b_ft_in12k_in1k',
      'laion2b',
      'laion400m_e32',
      'openai',
      'datacompxl',
      'dfn2b',
      'metaclip_2pt5b',
      'metaclip_400m',
    ],
  },
  vit_large_patch14_clip_224: {
    ...clip,
    ...large,
    patch: 14,
    imageSize: 224,
    pixels: 'half',
    tags: ['laion2b_ft_in12k_in1k', 'laion2b'],
    otherTags: {
      openai: 'clip',
      datacompxl: 'clip',
      dfn2b: 'clip',
      laion400m_e32: 'clip',
      metaclip_2pt5b: 'clip',
      metaclip_400m: 'clip',
    },
  },
  vit_large_patch14_clip_336: {
    ...clip,
    ...large,
    patch: 14,
    imageSize: 336,
    pixels: 'half',
    tags: ['laion2b_ft_in12k_in1k', 'laion2b_ft_in1k'],
    otherTags: { openai: 'clip' },
  },
  vit_tiny_patch16_224: {
    ...augreg,
    width: 192,
    depth: 12,
    hidden: 768,
    tags: ['augreg_in21k_ft_in1k', 'augreg_in21k'],
  },
  vit_small_patch16_224: {
    ...augreg,
    ...small,
    tags: ['augreg_in21k_ft_in1k', 'augreg_in21k', 'augreg_in1k'],
    otherTags: { dino: 'imagenet' },
  },
  vit_base_patch16_224: {
    ...augreg,
    ...base,
    tags: [
      'augreg2_in21k_ft_in1k',
      'augreg_in21k_ft_in1k',
      'augreg_in21k',
      'augreg_in1k',
      'orig_in21k',
      'orig_in21k_ft_in1k',
      'sam_in1k',
    ],
    otherTags: { dino: 'imagenet', mae: 'imagenet' },
  },
  vit_large_patch16_224: {
    ...augreg,
    ...large,
    tags: ['augreg_in21k_ft_in1k', 'augreg_in21k', 'orig_in21k'],
    otherTags: { mae: 'imagenet' },
  },
  test_vit: { ...augreg, width: 64, depth: 6, hidden: 192, imageSize: 160, tags: ['r160_in1k'] },
  resnet10t: { ...resnet, imageSize: 176, block: 'basic', layers: [1, 1, 1, 1], stem: 'tiered', tags: ['c3_in1k'] },
  resnet18: {
    ...resnet,
    block: 'basic',
    layers: [2, 2, 2, 2],
    tags: ['a1_in1k', 'a2_in1k', 'gluon_in1k', 'tv_in1k', 'fb_ssl_yfcc100m_ft_in1k', 'fb_swsl_ig1b_ft_in1k'],
  },
  resnet34: {
    ...resnet,
    block: 'basic',
    layers: [3, 4, 6, 3],
    tags: ['a1_in1k', 'a2_in1k', 'bt_in1k', 'gluon_in1k', 'tv_in1k'],
    otherTags: { ra4_e3600_r224_in1k: 'half' },
  },
  resnet50: {
    ...resnet,
    block: 'bottleneck',
    layers: [3, 4, 6, 3],
    tags: [
      'a1_in1k',
      'a2_in1k',
      'bt_in1k',
      'gluon_in1k',
      'tv_in1k',
      'ra_in1k',
      'fb_ssl_yfcc100m_ft_in1k',
      'fb_swsl_ig1b_ft_in1k',
    ],
  },
  test_convnext: {
    ...convnext,
    imageSize: 160,
    pixels: 'half',
    depths: [1, 2, 4, 2],
    dims: [24, 32, 48, 64],
    convMlp: false,
    tags: ['r160_in1k'],
  },
  convnext_atto: { ...convnext, depths: [2, 2, 6, 2], dims: [40, 80, 160, 320], convMlp: true, tags: ['d2_in1k'] },
  convnext_femto: { ...convnext, depths: [2, 2, 6, 2], dims: [48, 96, 192, 384], convMlp: true, tags: ['d1_in1k'] },
  convnext_pico: { ...convnext, depths: [2, 2, 6, 2], dims: [64, 128, 256, 512], convMlp: true, tags: ['d1_in1k'] },
  convnext_nano: {
    ...convnext,
    depths: [2, 2, 8, 2],
    dims: [80, 160, 320, 640],
    convMlp: true,
    tags: ['in12k_ft_in1k', 'in12k', 'd1h_in1k'],
  },
  convnext_tiny: {
    ...convnext,
    depths: [3, 3, 9, 3],
    dims: [96, 192, 384, 768],
    convMlp: false,
    tags: ['in12k_ft_in1k', 'in12k', 'fb_in1k', 'fb_in22k', 'fb_in22k_ft_in1k'],
  },
} as const satisfies Record<string, Vit | Resnet | Convnext>

export type TimmArchitecture = keyof typeof timmTable

export interface TowerChoices {
  /** Side of the input in pixels; by default the model's own. */
  readonly imageSize?: number | undefined
  readonly output?: 'tokens' | 'map' | undefined
  /** tokens: block, from the end if negative (-2 by default, as Prismatic). map: `features_only` index (the last by default). */
  readonly layer?: number | undefined
}

/** What is known of a tower; names are relative to the tower. */
export interface TowerFacts {
  readonly imageSize: number
  readonly mean: Triple
  readonly std: Triple
  readonly output: 'tokens' | 'map'
  readonly layer: number
  /** Channels of the output. */
  readonly width: number
  /** Patch tokens per image, or cells of the map. */
  readonly tokens: number
  readonly parameters: readonly Parameter[]
  /** fnmatch patterns of the parameters behind the output, which never receive a gradient. */
  readonly dead: readonly string[]
  /** fnmatch pattern of the repeated blocks; null where there is none. */
  readonly blocks: string | null
  readonly liveBlocks: number
}

/** Why the catalog cannot describe what was asked. */
export interface TowerProblem {
  readonly problem: 'unknown' | 'tag' | 'output' | 'layer' | 'imageSize'
  readonly message: string
}

/** Architecture and pretrained tag of a timm name. */
function split(name: string): [string, string | undefined] {
  const dot = name.indexOf('.')
  return dot === -1 ? [name, undefined] : [name.slice(0, dot), name.slice(dot + 1)]
}

/** The parameters are spelled as in OpenVLA's HF checkpoints, where LayerScale's `gamma` is `scale_factor`. */
function vitParameters(model: Vit, grid: number): Parameter[] {
  const { width, hidden, depth } = model
  const prefix = (model.classToken ? 1 : 0) + (model.registers ?? 0)
  const positions = grid * grid + (model.separatePrefix ? 0 : prefix)
  const parameters = [
    ...(model.classToken ? [tensor('cls_token', 1, 1, width)] : []),
    ...(model.registers === undefined ? [] : [tensor('reg_token', 1, model.registers, width)]),
    tensor('pos_embed', 1, positions, width),
    ...convLayer('patch_embed.proj', 3, width, model.patch, model.preNorm === undefined),
    ...(model.preNorm ? normLayer('norm_pre', width) : []),
  ]
  for (let index = 0; index < depth; index++) {
    const block = `blocks.${String(index)}`
    parameters.push(
      ...normLayer(`${block}.norm1`, width),
      ...linearLayer(`${block}.attn.qkv`, width, 3 * width),
      ...linearLayer(`${block}.attn.proj`, width, width),
      ...(model.layerScale ? [vector(`${block}.ls1.scale_factor`, width)] : []),
      ...normLayer(`${block}.norm2`, width),
      ...linearLayer(`${block}.mlp.fc1`, width, hidden),
      ...linearLayer(`${block}.mlp.fc2`, hidden, width),
      ...(model.layerScale ? [vector(`${block}.ls2.scale_factor`, width)] : []),
    )
  }
  parameters.push(...normLayer('norm', width))
  if (model.attentionPool) {
    parameters.push(
      tensor('attn_pool.latent', 1, 1, width),
      ...linearLayer('attn_pool.q', width, width),
      ...linearLayer('attn_pool.kv', width, 2 * width),
      ...linearLayer('attn_pool.proj', width, width),
      ...normLayer('attn_pool.norm', width),
      ...linearLayer('attn_pool.mlp.fc1', width, hidden),
      ...linearLayer('attn_pool.mlp.fc2', hidden, width),
    )
  }
  return parameters
}

const resnetWidths = [64, 128, 256, 512] as const

function resnetParameters(model: Resnet, layer: number): { parameters: Parameter[]; width: number; blocks: number } {
  const parameters: Parameter[] = []
  if (model.stem === 'plain') parameters.push(...convLayer('conv1', 3, 64, 7, false))
  else {
    parameters.push(
      ...convLayer('conv1.0', 3, 24, 3, false),
      ...normLayer('conv1.1', 24),
      ...convLayer('conv1.3', 24, 32, 3, false),
      ...normLayer('conv1.4', 32),
      ...convLayer('conv1.6', 32, 64, 3, false),
    )
  }
  parameters.push(...normLayer('bn1', 64))
  let width = 64
  let blocks = 0
  const averaged = model.stem === 'tiered' // the deep stems of timm come with an average pool before the shortcut's convolution
  for (let stage = 0; stage < layer; stage++) {
    const inner = resnetWidths[stage] ?? 0
    const outer = model.block === 'basic' ? inner : 4 * inner
    for (let index = 0; index < (model.layers[stage] ?? 0); index++) {
      const block = `layer${String(stage + 1)}.${String(index)}`
      if (model.block === 'basic') {
        parameters.push(...convLayer(`${block}.conv1`, width, inner, 3, false), ...normLayer(`${block}.bn1`, inner))
        parameters.push(...convLayer(`${block}.conv2`, inner, inner, 3, false), ...normLayer(`${block}.bn2`, inner))
      } else {
        parameters.push(...convLayer(`${block}.conv1`, width, inner, 1, false), ...normLayer(`${block}.bn1`, inner))
        parameters.push(...convLayer(`${block}.conv2`, inner, inner, 3, false), ...normLayer(`${block}.bn2`, inner))
        parameters.push(...convLayer(`${block}.conv3`, inner, outer, 1, false), ...normLayer(`${block}.bn3`, outer))
      }
      if (index === 0 && (stage > 0 || width !== outer)) {
        const first = averaged ? 1 : 0
        parameters.push(...convLayer(`${block}.downsample.${String(first)}`, width, outer, 1, false))
        parameters.push(...normLayer(`${block}.downsample.${String(first + 1)}`, outer))
      }
      width = outer
      blocks++
    }
  }
  return { parameters, width, blocks }
}

function convnextParameters(
  model: Convnext,
  layer: number,
): { parameters: Parameter[]; width: number; blocks: number } {
  const first = model.dims[0]
  const parameters = [...convLayer('stem_0', 3, first, 4, true), ...normLayer('stem_1', first)]
  let width = first
  let blocks = 0
  for (let stage = 0; stage <= layer; stage++) {
    const outer = model.dims[stage] ?? 0
    if (stage > 0) {
      parameters.push(...normLayer(`stages_${String(stage)}.downsample.0`, width))
      parameters.push(...convLayer(`stages_${String(stage)}.downsample.1`, width, outer, 2, true))
    }
    width = outer
    for (let index = 0; index < (model.depths[stage] ?? 0); index++) {
      const block = `stages_${String(stage)}.blocks.${String(index)}`
      const mlp = model.convMlp
        ? [
            ...convLayer(`${block}.mlp.fc1`, width, 4 * width, 1, true),
            ...convLayer(`${block}.mlp.fc2`, 4 * width, width, 1, true),
          ]
        : [...linearLayer(`${block}.mlp.fc1`, width, 4 * width), ...linearLayer(`${block}.mlp.fc2`, 4 * width, width)]
      parameters.push(
        vector(`${block}.gamma`, width),
        ...convLayer(`${block}.conv_dw`, width, width, 7, true, width),
        ...normLayer(`${block}.norm`, width),
        ...mlp,
      )
      blocks++
    }
  }
  return { parameters, width, blocks }
}

/** Whether the catalog has a timm name's architecture. */
export function isTimmArchitecture(name: string): boolean {
  return Object.hasOwn(timmTable, split(name)[0])
}

/** Describes a timm tower as the runtime builds it, or says why it cannot. */
export function timmTower(name: string, choices: TowerChoices = {}): TowerFacts | TowerProblem {
  const [architecture, tag] = split(name)
  if (!isTimmArchitecture(name))
    return { problem: 'unknown', message: `The catalog does not describe the timm model '${name}'.` }
  const model: Vit | Resnet | Convnext = timmTable[architecture as TimmArchitecture]
  const pixels = tag === undefined || model.tags.includes(tag) ? model.pixels : model.otherTags?.[tag]
  if (pixels === undefined) {
    const tags = [...model.tags, ...Object.keys(model.otherTags ?? {})]
    return {
      problem: 'tag',
      message: `The catalog knows ${architecture} with the tags ${tags.join(', ')}, not '${tag ?? ''}'.`,
    }
  }
  const { mean, std } = pixelStatistics[pixels]
  const imageSize = choices.imageSize ?? model.imageSize
  const common = { imageSize, mean, std }

  if (model.family === 'vit') {
    if (choices.output === 'map')
      return { problem: 'output', message: `${architecture} is a vision transformer: it gives tokens, not a map.` }
    const layer = choices.layer ?? -2
    const block = layer < 0 ? layer + model.depth : layer
    if (block < 0 || block >= model.depth)
      return {
        problem: 'layer',
        message: `${architecture} has ${String(model.depth)} blocks; ${String(layer)} is none of them.`,
      }
    // Its own size needs not be a multiple: SigLIP's 384 pixels give 27 patches of 14.
    if (imageSize % model.patch !== 0 && imageSize !== model.imageSize) {
      return {
        problem: 'imageSize',
        message: `${architecture} cuts images into patches of ${String(model.patch)} pixels, which do not divide ${String(imageSize)}.`,
      }
    }
    const grid = Math.floor(imageSize / model.patch)
    const dead = Array.from({ length: model.depth - 1 - block }, (_, index) => `blocks.${String(block + 1 + index)}.*`)
    if (block < model.depth - 1) dead.push('norm.*')
    if (model.attentionPool) dead.push('attn_pool.*')
    return {
      ...common,
      output: 'tokens',
      layer,
      width: model.width,
      tokens: grid * grid,
      parameters: vitParameters(model, grid),
      dead,
      blocks: 'blocks.*',
      liveBlocks: block + 1,
    }
  }

  if (choices.output === 'tokens')
    return { problem: 'output', message: `${architecture} is a convolutional network: it gives a map, not tokens.` }
  const last = model.family === 'resnet' ? 4 : 3
  const wanted = choices.layer ?? last
  const layer = wanted < 0 ? wanted + last + 1 : wanted
  if (layer < 0 || layer > last)
    return {
      problem: 'layer',
      message: `${architecture} has the maps 0 to ${String(last)}; ${String(wanted)} is none of them.`,
    }
  const { parameters, width, blocks } =
    model.family === 'resnet' ? resnetParameters(model, layer) : convnextParameters(model, layer)
  // Each halving rounds up, as padded convolutions do; ConvNeXt's patchified stem and down-sampling round down.
  let side = imageSize
  if (model.family === 'resnet') for (let halving = 0; halving <= layer; halving++) side = Math.ceil(side / 2)
  else for (let stage = 0; stage <= layer; stage++) side = Math.floor(side / (stage === 0 ? 4 : 2))
  return {
    ...common,
    output: 'map',
    layer,
    width,
    tokens: side * side,
    parameters,
    dead: [],
    blocks: blocks === 0 ? null : model.family === 'resnet' ? 'layer*.*' : 'stages_*.blocks.*',
    liveBlocks: blocks,
  }
}
