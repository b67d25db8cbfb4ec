/** Writes what the catalog says as JSON, for the Python test that compares it with the real classes. */
import { causalLM, languageFamilies } from '../../sdk/catalog/language.ts'
import { modelModules, type ModelDescription } from '../../sdk/catalog/model.ts'
import { openvla, openvlaLora, openvlaRegression } from '../../sdk/catalog/openvla.ts'
import { adaptedLayers, adapterElements, type Parameter } from '../../sdk/catalog/parameters.ts'
import { timmTable, timmTower, type TowerChoices } from '../../sdk/catalog/timm.ts'
import { transformersTower } from '../../sdk/catalog/transformers-vision.ts'
import { pythonVersions } from '../../sdk/catalog/versions.ts'

const shapes = (parameters: readonly Parameter[]): Record<string, readonly number[]> =>
  Object.fromEntries(parameters.map(({ name, shape }) => [name, shape]))

function tower(name: string, choices: TowerChoices = {}) {
  const facts = timmTower(name, choices)
  if ('problem' in facts) throw new Error(facts.message)
  const { parameters, ...rest } = facts
  return {
    name,
    ...rest,
    parameters: shapes(parameters),
    linears: parameters.filter(({ layer }) => layer === 'linear').map((parameter) => parameter.name),
  }
}

const towers = Object.entries(timmTable).flatMap(([name, model]) => {
  if (model.family !== 'vit')
    return Array.from({ length: model.family === 'resnet' ? 5 : 4 }, (_, layer) => tower(name, { layer }))
  return [tower(name), tower(name, { imageSize: model.patch * 8, layer: -1 })]
})
towers.push(tower('resnet10t', { imageSize: 70 }), tower('convnext_atto', { imageSize: 70 })) // sizes that do not divide

const pixels = Object.entries(timmTable).flatMap(([name, model]) => {
  const tags = [...model.tags, ...('otherTags' in model ? Object.keys(model.otherTags) : [])]
  return tags.map((tag) => {
    const { mean, std } = tower(`${name}.${tag}`)
    return { name: `${name}.${tag}`, mean, std }
  })
})

const small = { hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 320 }
const languages = [
  { model_type: 'llama' },
  { model_type: 'llama', ...small, num_key_value_heads: 2, attention_bias: true, mlp_bias: true },
  { model_type: 'llama', ...small, head_dim: 32, tie_word_embeddings: true },
  { model_type: 'mistral' },
  { model_type: 'mistral', ...small, num_key_value_heads: 4, head_dim: 8 },
  { model_type: 'qwen2' },
  { model_type: 'qwen2', ...small, num_key_value_heads: 1, attention_bias: true },
  { model_type: 'qwen3' },
  { model_type: 'qwen3', ...small, num_key_value_heads: 2 },
  { model_type: 'gemma' },
  { model_type: 'gemma', ...small, num_key_value_heads: 1, tie_word_embeddings: false },
  { model_type: 'gemma2' },
  { model_type: 'gemma2', ...small, num_key_value_heads: 2 },
].flatMap((config) =>
  [true, false].map((head) => {
    const facts = causalLM(config, { head })
    if (facts === undefined) throw new Error(config.model_type)
    const { parameters, ...rest } = facts
    return { config, head, ...rest, parameters: shapes(parameters) }
  }),
)

const visionSizes = {
  hidden_size: 32,
  intermediate_size: 64,
  num_hidden_layers: 3,
  num_attention_heads: 2,
  patch_size: 8,
}
const transformersTowers = [
  'siglip_vision_model',
  'clip_vision_model',
  'dinov2',
  'dinov2_with_registers',
  'vit',
].flatMap((model_type) =>
  [-1, -2].map((layer) => ({
    config: { model_type, ...visionSizes },
    layer,
    imageSize: 32,
    facts: transformersTower({ model_type, ...visionSizes }, { layer, imageSize: 32 }),
  })),
)

/** One tower of a model, with what the Plan says of it. */
function planned(name: string, choices: TowerChoices = {}) {
  const { parameters: _, linears: __, dead: ___, blocks: ____, liveBlocks: _____, ...facts } = tower(name, choices)
  return { source: 'timm' as const, options: {}, norm: 'native', ...facts }
}

const llama = { model_type: 'llama', ...small }
const language = { config: llama, hidden: 64, layers: 2, vocab: 320 }
const models: Record<string, ModelDescription> = {
  openvla: {
    vision: {
      towers: openvla.vision.towers.map(({ name, imageSize, layer }) => planned(name, { imageSize, layer })),
      fuse: 'channels',
    },
    projector: openvla.projector,
    language: { config: openvla.language.config, hidden: 4096, layers: 32, vocab: 32_064 },
    action: { decoder: 'tokens' },
    stateDim: 0,
    actionDim: 7,
  },
  openvlaRegression: {
    vision: {
      towers: openvla.vision.towers.map(({ name, imageSize, layer }) => planned(name, { imageSize, layer })),
      fuse: 'channels',
    },
    projector: openvla.projector,
    language: { config: openvla.language.config, hidden: 4096, layers: 32, vocab: 32_064 },
    action: { decoder: 'regression', chunk: 8, slots: 7, ...openvlaRegression },
    stateDim: 8,
    actionDim: 7,
  },
  keyPoints: {
    vision: { towers: [planned('convnext_atto', { imageSize: 64, layer: 0 })], fuse: 'channels' },
    projector: { kind: 'spatialSoftArgmax', points: 12 },
    language,
    action: { decoder: 'regression', chunk: 4, hidden: 48, blocks: 3, queries: 'learnable', slots: 1 },
    stateDim: 4,
    actionDim: 4,
  },
  flow: {
    vision: {
      towers: [
        planned('test_vit'),
        planned('vit_tiny_patch16_224', { imageSize: 160 }),
        planned('test_vit', { layer: -1 }),
      ],
      fuse: 'channels',
    },
    projector: { kind: 'mlp', layers: 2 },
    language,
    action: { decoder: 'flowMatching', attention: 'cross', chunk: 4, hidden: 32, layers: 2 },
    stateDim: 0,
    actionDim: 7,
  },
  joint: {
    vision: { towers: [planned('test_vit')], fuse: 'channels' },
    projector: { kind: 'linear' },
    language,
    action: { decoder: 'flowMatching', attention: 'joint', hidden: 38, mlp: 50, layers: 2 },
    stateDim: 3,
    actionDim: 7,
  },
  ...Object.fromEntries(
    languageFamilies.map((model_type) => [
      `joint beside ${model_type}`,
      {
        vision: { towers: [planned('test_vit')], fuse: 'channels' },
        projector: { kind: 'linear' },
        language: {
          ...language,
          config: { model_type, ...small, num_key_value_heads: 2, attention_bias: true },
        },
        action: { decoder: 'flowMatching', attention: 'joint', hidden: 38, mlp: 50, layers: 2 },
        stateDim: 0,
        actionDim: 7,
      } satisfies ModelDescription,
    ]),
  ),
  /** pi0's sizes, with its padded state and action. */
  pi0: {
    vision: { towers: [planned('test_vit')], fuse: 'channels' },
    projector: { kind: 'linear' },
    language: {
      config: {
        model_type: 'gemma',
        hidden_size: 2048,
        intermediate_size: 16_384,
        num_hidden_layers: 18,
        num_attention_heads: 8,
        num_key_value_heads: 1,
        head_dim: 256,
        vocab_size: 320,
      },
      hidden: 2048,
      layers: 18,
      vocab: 320,
    },
    action: { decoder: 'flowMatching', attention: 'joint', hidden: 1024, mlp: 4096, layers: 18 },
    stateDim: 32,
    actionDim: 32,
  },
  tokens: {
    vision: { towers: [planned('resnet10t', { imageSize: 64 })], fuse: 'sequence' },
    projector: { kind: 'linear' },
    language: { ...language, config: { ...llama, tie_word_embeddings: true } },
    action: { decoder: 'tokens' },
    stateDim: 3,
    actionDim: 2,
  },
}

const described = Object.entries(models).map(([name, model]) => ({
  name,
  model,
  modules: modelModules(model).map(({ parameters, ...facts }) => {
    const lora = (targets: readonly string[] | null) =>
      adaptedLayers(parameters ?? [], targets, facts.dead).reduce((sum, layer) => sum + adapterElements(layer, 32), 0)
    const published = openvlaLora.targets[facts.name as keyof typeof openvlaLora.targets] as
      readonly string[] | undefined
    return {
      ...facts,
      parameters: shapes(parameters ?? []),
      lora: lora(null),
      publishedLora: published === undefined ? null : lora(published),
    }
  }),
}))

process.stdout.write(
  JSON.stringify({
    towers,
    pixels,
    languages,
    transformersTowers,
    models: described,
    openvla,
    openvlaLora,
    languageFamilies,
    pythonVersions,
  }),
)
