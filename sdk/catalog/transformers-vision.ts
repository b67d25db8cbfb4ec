/**
 * Vision towers of transformers 5.5.4 by the `model_type` of their config: sizes, blocks, what is dead behind the output.
 * Source: the modeling files of transformers (models/siglip, clip, dinov2, dinov2_with_registers, vit). A test builds each.
 */

interface Family {
  /** Pattern of the blocks below the tower. */
  readonly blocks: string
  /** Parameters without a gradient whatever layer is read: pooling heads, and DINOv2's embedding of masked patches. */
  readonly behind: readonly string[]
  /** The norm behind the last block: dead unless the last block's output is read. CLIP's last hidden state is before it. */
  readonly norm?: string
}

const families: Readonly<Record<string, Family>> = {
  siglip_vision_model: {
    blocks: 'vision_model.encoder.layers',
    behind: ['vision_model.head.*'],
    norm: 'vision_model.post_layernorm.*',
  },
  clip_vision_model: { blocks: 'vision_model.encoder.layers', behind: ['vision_model.post_layernorm.*'] },
  dinov2: { blocks: 'encoder.layer', behind: ['embeddings.mask_token'], norm: 'layernorm.*' },
  dinov2_with_registers: { blocks: 'encoder.layer', behind: ['embeddings.mask_token'], norm: 'layernorm.*' },
  vit: { blocks: 'encoder.layer', behind: ['pooler.*'], norm: 'layernorm.*' },
}

/** What is known of a transformers tower; names are relative to the tower. */
export interface TransformersTowerFacts {
  readonly width: number
  readonly tokens: number
  readonly dead: readonly string[]
  readonly blocks: string
  readonly liveBlocks: number
}

/** Describes a transformers vision tower from its config (of a two-tower model the vision half), or undefined where it is not known. */
export function transformersTower(
  config: Readonly<Record<string, unknown>>,
  choices: { readonly imageSize: number; readonly layer: number },
): TransformersTowerFacts | undefined {
  const half =
    typeof config['vision_config'] === 'object' && config['vision_config'] !== null
      ? (config['vision_config'] as Readonly<Record<string, unknown>>)
      : config
  const { model_type: type, hidden_size: width, num_hidden_layers: depth, patch_size: patch } = half
  const family = typeof type === 'string' && Object.hasOwn(families, type) ? families[type] : undefined
  if (family === undefined || typeof width !== 'number' || typeof depth !== 'number' || typeof patch !== 'number')
    return undefined
  const block = choices.layer < 0 ? choices.layer + depth : choices.layer
  if (block < 0 || block >= depth) return undefined
  const dead = Array.from(
    { length: depth - 1 - block },
    (_, index) => `${family.blocks}.${String(block + 1 + index)}.*`,
  )
  const last = block === depth - 1
  return {
    width,
    tokens: Math.floor(choices.imageSize / patch) ** 2,
    dead: [...dead, ...family.behind, ...(last || family.norm === undefined ? [] : [family.norm])],
    blocks: `${family.blocks}.*`,
    liveBlocks: block + 1,
  }
}
