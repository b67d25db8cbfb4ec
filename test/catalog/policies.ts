/** LeRobot policies whose catalog entries the Python test compares with the real classes. */
import { baseFields } from '../../sdk/catalog/lerobot/fields.ts'
import { policies } from '../../sdk/catalog/lerobot/index.ts'
import { smolvlm2 } from '../../sdk/catalog/lerobot/smolvla.ts'
import { florence2Large } from '../../sdk/catalog/lerobot/xvla.ts'
import type { PolicyDescription, PolicyType } from '../../sdk/catalog/lerobot/facts.ts'
import type { Parameter } from '../../sdk/catalog/parameters.ts'

interface Case extends PolicyDescription {
  readonly name: string
  readonly type: PolicyType
  readonly imageSizes: Readonly<Record<string, readonly [number, number]>>
}

/** One camera, images of 96 x 128, a state of 8 and an action of 7, unless said otherwise. */
function policy(
  type: PolicyType,
  name: string,
  changes: Partial<Case> & { config?: PolicyDescription['config'] } = {},
) {
  const cameras = changes.cameras ?? ['front']
  const imageSizes = Object.fromEntries(cameras.map((camera) => [camera, [96, 128] as const]))
  return { type, name, config: {}, stateDim: 8, actionDim: 7, ...changes, cameras, imageSizes } satisfies Case
}

const xvlaBase = { florence_config: florence2Large, resize_imgs_with_padding: [224, 224], max_state_dim: 20 }

const two = ['front', 'wrist']
const three = [...two, 'side']

/** At full size, on the meta device. */
export const fullSize: readonly Case[] = [
  policy('act', 'by default'),
  policy('act', 'without a latent variable', {
    cameras: three,
    stateDim: 14,
    actionDim: 14,
    config: {
      use_vae: false,
      vision_backbone: 'resnet50',
      pre_norm: true,
      dim_model: 256,
      chunk_size: 20,
      n_action_steps: 5,
    },
  }),
  policy('act', 'deeper', {
    cameras: two,
    config: {
      vision_backbone: 'resnet34',
      pre_norm: true,
      n_decoder_layers: 7,
      n_vae_encoder_layers: 2,
      latent_dim: 16,
      dim_feedforward: 1024,
    },
  }),
  policy('diffusion', 'by default'),
  policy('diffusion', 'several cameras, one encoder', {
    cameras: three,
    stateDim: 2,
    actionDim: 2,
    config: {
      use_separate_rgb_encoder_per_camera: false,
      use_group_norm: true,
      pretrained_backbone_weights: null,
      crop_shape: [84, 84],
      down_dims: [64, 128],
      use_film_scale_modulation: false,
      n_obs_steps: 3,
      horizon: 16,
      n_action_steps: 8,
      kernel_size: 3,
    },
  }),
  policy('diffusion', 'several cameras, an encoder each', {
    cameras: two,
    config: {
      vision_backbone: 'resnet50',
      resize_shape: [120, 90],
      crop_ratio: 0.8,
      spatial_softmax_num_keypoints: 16,
      down_dims: [128, 256, 256, 512],
      diffusion_step_embed_dim: 64,
      n_obs_steps: 1,
    },
  }),
  policy('smolvla', 'by default', { cameras: three }),
  policy('smolvla', 'all of it trains', {
    config: {
      freeze_vision_encoder: false,
      train_expert_only: false,
      train_state_proj: false,
      num_vlm_layers: -1,
      max_action_dim: 40,
      expert_width_multiplier: 0.5,
    },
  }),
  policy('smolvla', 'joint attention, half as many expert layers', {
    config: {
      freeze_vision_encoder: false,
      train_expert_only: false,
      attention_mode: 'self_attn',
      num_expert_layers: 8,
      max_state_dim: 16,
    },
  }),
  policy('pi0', 'by default', { cameras: three }),
  policy('pi0', 'larger expert, larger images', {
    cameras: two,
    config: {
      action_expert_variant: 'gemma_2b',
      image_resolution: [448, 448],
      max_action_dim: 40,
      max_state_dim: 24,
      freeze_vision_encoder: true,
    },
  }),
  policy('pi05', 'by default', { cameras: three }),
  policy('pi05', 'the expert alone', {
    config: { train_expert_only: true, chunk_size: 10, n_action_steps: 10, max_action_dim: 20 },
  }),
  policy('xvla', 'as published', {
    cameras: three,
    config: { ...xvlaBase, action_mode: 'auto' },
  }),
  policy('xvla', 'joints, frozen towers, projections of each domain', {
    actionDim: 14,
    stateDim: 20,
    config: {
      ...xvlaBase,
      action_mode: 'joint',
      max_state_dim: 32,
      use_hetero_proj: true,
      num_domains: 4,
      freeze_vision_encoder: true,
      freeze_language_encoder: true,
      depth: 2,
      mlp_ratio: 3,
      chunk_size: 30,
      n_action_steps: 30,
      num_image_views: 3,
    },
  }),
  policy('xvla', "Microsoft's names, no state, no prompts", {
    stateDim: 0,
    actionDim: 14,
    config: {
      florence_config: {
        vision_config: {
          model_type: 'davit',
          dim_embed: [16, 24, 34],
          num_heads: [2, 2, 2],
          num_groups: [2, 2, 2],
          depths: [1, 2, 1],
          patch_size: [7, 3, 3],
          patch_stride: [4, 2, 2],
          patch_padding: [3, 1, 1],
          patch_prenorm: [false, true, true],
          qkv_bias: false,
          mlp_ratio: 2.5,
          projection_dim: 64,
          image_pos_embed: { type: 'learned_abs_2d', max_pos_embeddings: 20 },
          visual_temporal_embedding: { type: 'COSINE', max_temporal_embeddings: 30 },
          image_feature_source: ['spatial_avg_pool', 'temporal_avg_pool'],
          enable_checkpoint: false,
        },
        text_config: { model_type: 'florence2_language', d_model: 64, encoder_layers: 2, encoder_attention_heads: 4 },
      },
      action_mode: 'auto',
      max_action_dim: 16,
      use_proprio: false,
      len_soft_prompts: 0,
      train_policy_transformer: false,
      train_soft_prompts: false,
      hidden_size: 96,
      num_heads: 6,
      depth: 3,
    },
  }),
]

const shapes = (parameters: readonly Parameter[] | undefined) =>
  parameters === undefined ? null : Object.fromEntries(parameters.map(({ name, shape }) => [name, shape]))

/** What the catalog says of a policy, as JSON. */
export function describePolicy(type: PolicyType, description: PolicyDescription) {
  const { modules, ...facts } = policies[type].describe(description)
  return {
    ...facts,
    modules: modules.map(({ parameters, buffers, ...module }) => ({
      ...module,
      parameters: shapes(parameters),
      linears: (parameters ?? []).filter(({ layer }) => layer === 'linear').map(({ name }) => name),
      buffers: buffers === undefined ? null : Object.fromEntries(buffers.map(({ name, shape }) => [name, shape])),
    })),
  }
}

/** The tables of fields, without their schemas. */
export const policyFields = Object.fromEntries(
  Object.entries(policies).map(([type, { fields, managed }]) => [
    type,
    {
      fields: Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.default])),
      managed: Object.fromEntries(Object.entries(managed).map(([name, field]) => [name, field.default])),
    },
  ]),
)

export const policyCatalog = {
  policies: fullSize.map((entry) => ({ ...entry, facts: describePolicy(entry.type, entry) })),
  policyFields,
  baseFields: Object.keys(baseFields),
  smolvlm2,
}
