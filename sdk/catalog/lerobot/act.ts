/**
 * ACT (Action Chunking Transformer) in LeRobot 0.6.1.
 * Source: lerobot/policies/act/configuration_act.py, modeling_act.py.
 */
import { below, convLayer, linearLayer, normLayer, type Parameter } from '../parameters.ts'
import {
  cameraProblems,
  chunkProblems,
  embedding,
  known,
  multiheadAttention,
  oldStatistics,
  policyModule,
  stateProblems,
  undescribed,
  type PolicyDescription,
  type PolicyFacts,
  type PolicyModule,
} from './facts.ts'
import {
  boolean,
  choice,
  integer,
  layerCount,
  managed,
  modes,
  number,
  numberOrNull,
  readConfig,
  textOrNull,
  type Fields,
  type ManagedFields,
  type Problem,
  type Values,
} from './fields.ts'
import { isBasic, mapSide, resnets, torchvisionResnet } from './resnet.ts'

/** Fields of `ACTConfig` that a user sets. */
export const actFields = {
  /** Actions per prediction. @default 100 */
  chunk_size: integer(100),
  /** Actions of a prediction that are executed before the next one. @default 100 */
  n_action_steps: integer(100),
  /** torchvision's ResNet that encodes each image. @default 'resnet18' */
  vision_backbone: choice(resnets, 'resnet18'),
  /** torchvision's pretrained weights for it; null: none. @default 'ResNet18_Weights.IMAGENET1K_V1' */
  pretrained_backbone_weights: textOrNull('ResNet18_Weights.IMAGENET1K_V1'),
  /** A dilated convolution instead of the last stride: a map of twice the side. Bottleneck ResNets only. @default false */
  replace_final_stride_with_dilation: boolean(false),
  /** Norm before attention and feed-forward instead of behind them. @default false */
  pre_norm: boolean(false),
  /** Width of the transformer. @default 512 */
  dim_model: integer(512),
  /** Attention heads. @default 8 */
  n_heads: integer(8),
  /** Hidden width of the feed-forward layers. @default 3200 */
  dim_feedforward: integer(3200),
  /** Activation of the feed-forward layers. @default 'relu' */
  feedforward_activation: choice(['relu', 'gelu'], 'relu'),
  /** Layers of the encoder. @default 4 */
  n_encoder_layers: layerCount(4),
  /** Layers of the decoder. @default 1 */
  n_decoder_layers: layerCount(1),
  /** Train with a latent variable that encodes the demonstration's style. @default true */
  use_vae: boolean(true),
  /** Width of the latent variable. @default 32 */
  latent_dim: integer(32),
  /** Layers of the encoder of the latent variable. @default 4 */
  n_vae_encoder_layers: layerCount(4),
  /** Weight exp(-c i) of older predictions for the same step at inference; asks for `n_action_steps` 1. @default null (off) */
  temporal_ensemble_coeff: numberOrNull(null),
  /** Dropout of the transformer. @default 0.1 */
  dropout: number(0.1),
  /** Weight of the latent variable's KL divergence in the loss. @default 10 */
  kl_weight: number(10),
} as const satisfies Fields

/** Fields of `ACTConfig` that the pipeline decides. */
export const actManaged = {
  n_obs_steps: managed(integer(1), 'fixed: ACT sees one frame'),
  normalization_mapping: managed(
    modes({ VISUAL: 'MEAN_STD', STATE: 'MEAN_STD', ACTION: 'MEAN_STD' }),
    'normalize, and visual of the model',
  ),
  optimizer_lr: managed(number(1e-5), 'training: lr'),
  optimizer_weight_decay: managed(number(1e-4), 'training: weightDecay'),
  optimizer_lr_backbone: managed(number(1e-5), 'modules.vision: lr'),
} as const satisfies ManagedFields

type ActConfig = Values<typeof actFields & typeof actManaged>

/** Facts of an ACT policy. */
export function act(description: PolicyDescription): PolicyFacts {
  const { values: config, problems } = readConfig('act', actFields, actManaged, description.config)
  const width = config.dim_model
  const state = known(description.stateDim)
  const actions = known(description.actionDim)
  const vision = torchvisionResnet(config.vision_backbone, 'frozen', [
    'conv1',
    'bn1',
    'layer1',
    'layer2',
    'layer3',
    'layer4',
  ])
  const attention = {
    heads: config.n_heads,
    keyValueHeads: config.n_heads,
    headDim: Math.floor(width / config.n_heads),
  }

  const attended = (name: string, attentions: readonly string[]): Parameter[] => [
    ...attentions.flatMap((own) => multiheadAttention(`${name}.${own}`, width)),
    ...linearLayer(`${name}.linear1`, width, config.dim_feedforward),
    ...linearLayer(`${name}.linear2`, config.dim_feedforward, width),
    ...attentions.flatMap((_, index) => normLayer(`${name}.norm${String(index + 1)}`, width)),
    ...normLayer(`${name}.norm${String(attentions.length + 1)}`, width),
  ]
  const layers = (stack: string, depth: number, attentions: readonly string[]): Parameter[] =>
    Array.from({ length: depth }, (_, index) => attended(`${stack}.layers.${String(index)}`, attentions)).flat()
  const encoder = (stack: string, depth: number): Parameter[] => [
    ...layers(stack, depth, ['self_attn']),
    ...(config.pre_norm ? normLayer(`${stack}.norm`, width) : []),
  ]

  const hasState = state !== 0
  const modules: PolicyModule[] = [
    policyModule({
      name: 'vision',
      patterns: ['model.backbone.*'],
      blocks: ['model.backbone.layer*.*'],
      liveBlocks: [vision.blocks],
      units: ['model.backbone'],
      parameters: below('model.backbone', vision.parameters),
      buffers: vision.buffers.map((buffer) => ({ ...buffer, name: `model.backbone.${buffer.name}` })),
    }),
    policyModule({
      name: 'projector',
      patterns: ['model.encoder_img_feat_input_proj.*'],
      units: ['model.encoder_img_feat_input_proj'],
      parameters: convLayer('model.encoder_img_feat_input_proj', vision.width, width, 1, true),
    }),
    ...(config.use_vae
      ? [
          policyModule({
            name: 'vae',
            patterns: ['model.vae_encoder.*', 'model.vae_encoder_*'],
            blocks: ['model.vae_encoder.layers.*'],
            liveBlocks: [config.n_vae_encoder_layers],
            units: [
              'model.vae_encoder',
              ...(hasState ? ['model.vae_encoder_robot_state_input_proj'] : []),
              'model.vae_encoder_action_input_proj',
              'model.vae_encoder_latent_output_proj',
            ],
            parameters:
              state === undefined || actions === undefined
                ? undefined
                : [
                    ...encoder('model.vae_encoder', config.n_vae_encoder_layers),
                    embedding('model.vae_encoder_cls_embed', 1, width),
                    ...(hasState ? linearLayer('model.vae_encoder_robot_state_input_proj', state, width) : []),
                    ...linearLayer('model.vae_encoder_action_input_proj', actions, width),
                    ...linearLayer('model.vae_encoder_latent_output_proj', width, 2 * config.latent_dim),
                  ],
            buffers:
              state === undefined
                ? undefined
                : [
                    {
                      name: 'model.vae_encoder_pos_enc',
                      shape: [1, 1 + (hasState ? 1 : 0) + config.chunk_size, width],
                    },
                  ],
            attention,
          }),
        ]
      : []),
    policyModule({
      name: 'encoder',
      patterns: ['model.encoder.*', 'model.encoder_latent_input_proj.*', 'model.encoder_1d_feature_pos_embed.*'],
      blocks: ['model.encoder.layers.*'],
      liveBlocks: [config.n_encoder_layers],
      units: ['model.encoder', 'model.encoder_latent_input_proj'],
      dead: config.use_vae ? [] : ['model.encoder_latent_input_proj.weight'], // its input is zero
      parameters:
        state === undefined
          ? undefined
          : [
              ...encoder('model.encoder', config.n_encoder_layers),
              ...linearLayer('model.encoder_latent_input_proj', config.latent_dim, width),
              embedding('model.encoder_1d_feature_pos_embed', hasState ? 2 : 1, width),
            ],
      attention,
    }),
    policyModule({
      name: 'decoder',
      patterns: ['model.decoder.*', 'model.decoder_pos_embed.*'],
      blocks: ['model.decoder.layers.*'],
      liveBlocks: [config.n_decoder_layers],
      dead: config.pre_norm ? ['model.decoder.layers.0.norm1.weight'] : [], // it normalises zeros
      units: ['model.decoder'],
      parameters: [
        ...layers('model.decoder', config.n_decoder_layers, ['self_attn', 'multihead_attn']),
        ...normLayer('model.decoder.norm', width),
        embedding('model.decoder_pos_embed', config.chunk_size, width),
      ],
      attention,
    }),
    policyModule({
      name: 'heads',
      patterns: [...(hasState ? ['model.encoder_robot_state_input_proj.*'] : []), 'model.action_head.*'],
      units: [...(hasState ? ['model.encoder_robot_state_input_proj'] : []), 'model.action_head'],
      parameters:
        state === undefined || actions === undefined
          ? undefined
          : [
              ...(hasState ? linearLayer('model.encoder_robot_state_input_proj', state, width) : []),
              ...linearLayer('model.action_head', width, actions),
            ],
    }),
  ]

  const sizes = Object.values(known(description.imageSizes) ?? {})
  const halvings = config.replace_final_stride_with_dilation ? 4 : 5
  const cells = new Set(sizes.map(([height, pixels]) => mapSide(height, halvings) * mapSide(pixels, halvings)))
  return {
    type: 'act',
    modules: problems.length > 0 ? undescribed(modules) : modules,
    values: config,
    normalization: config.normalization_mapping,
    recipe: {
      optimizer: 'adamw',
      lr: config.optimizer_lr,
      betas: [0.9, 0.999],
      eps: 1e-8,
      weightDecay: config.optimizer_weight_decay,
      clip: 10,
      lrFactors:
        config.optimizer_lr_backbone === config.optimizer_lr
          ? {}
          : { vision: config.optimizer_lr_backbone / config.optimizer_lr },
      weightDecayFactors: {},
      schedule: { kind: 'constant' },
      source: 'lerobot/policies/act/configuration_act.py, lerobot/optim/optimizers.py',
    },
    chunk: config.chunk_size,
    actionSteps: config.n_action_steps,
    observationSteps: 1,
    firstAction: 0,
    padded: { state: null, action: null },
    mask: { kind: 'full' },
    joint: null,
    sequence: {
      perImage: cells.size === 1 ? [...cells][0] : undefined,
      images: description.cameras.length,
      language: 0,
      state: hasState ? 1 : 0,
      actions: config.chunk_size,
    },
    weights: { missing: [], unexpected: oldStatistics, tied: [] },
    batchNorm: [],
    problems: [...problems, ...cameraProblems('act', description.cameras), ...actProblems(config, state)],
  }
}

function actProblems(config: ActConfig, state: number | undefined): Problem[] {
  const problems = [
    ...stateProblems('act', state),
    ...chunkProblems(config.n_action_steps, 'chunk_size', config.chunk_size),
  ]
  if (config.dim_model % config.n_heads !== 0)
    problems.push({
      field: 'n_heads',
      message: `n_heads (${config.n_heads}) does not divide dim_model (${config.dim_model}).`,
    })
  if (config.dim_model % 4 !== 0)
    problems.push({
      field: 'dim_model',
      message: `dim_model (${config.dim_model}) is no multiple of 4, which the two-dimensional position embedding needs.`,
    })
  if (config.temporal_ensemble_coeff !== null && config.n_action_steps > 1)
    problems.push({
      field: 'temporal_ensemble_coeff',
      message: `temporal_ensemble_coeff predicts at every step: n_action_steps must be 1, not ${config.n_action_steps}.`,
    })
  if (config.replace_final_stride_with_dilation && isBasic(config.vision_backbone))
    problems.push({
      field: 'replace_final_stride_with_dilation',
      message: `${config.vision_backbone} cannot be dilated; resnet50, resnet101 and resnet152 can.`,
    })
  if (config.n_obs_steps !== 1)
    problems.push({ field: 'n_obs_steps', message: 'ACT sees one frame: n_obs_steps is 1.' })
  return problems
}
