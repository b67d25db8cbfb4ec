/**
 * Diffusion Policy in LeRobot 0.6.1.
 * Source: lerobot/policies/diffusion/configuration_diffusion.py, modeling_diffusion.py.
 */
import { convLayer, linearLayer, normLayer, type Parameter } from '../parameters.ts'
import {
  conv1d,
  convTranspose1d,
  known,
  oldStatistics,
  policyModule,
  cameraProblems,
  stateProblems,
  undescribed,
  type ImageSizes,
  type PolicyDescription,
  type PolicyFacts,
  type PolicyModule,
} from './facts.ts'
import {
  boolean,
  choice,
  count,
  integer,
  integerOrNull,
  integers,
  managed,
  modes,
  number,
  pair,
  readConfig,
  sizeOrNull,
  text,
  textOrNull,
  type Fields,
  type ManagedFields,
  type Problem,
  type Values,
} from './fields.ts'
import { mapSide, resnets, torchvisionResnet } from './resnet.ts'

/** Fields of `DiffusionConfig` that a user sets. */
export const diffusionFields = {
  /** Frames of observation, the present one last. @default 2 */
  n_obs_steps: integer(2),
  /** Actions per prediction, from the first observed frame on; a multiple of 2 to the number of `down_dims`. @default 64 */
  horizon: integer(64),
  /** Actions of a prediction that are executed before the next one. @default 32 */
  n_action_steps: integer(32),
  /** Frames at the end of each episode from which no sample starts. @default 7 */
  drop_n_last_frames: count(7),
  /** torchvision's ResNet that encodes each image. @default 'resnet18' */
  vision_backbone: choice(resnets, 'resnet18'),
  /** Height and width to which images are resized. @default null (as they are) */
  resize_shape: sizeOrNull(null),
  /** Share of `resize_shape` that is cropped; 1: no crop. @default 1 */
  crop_ratio: number(1),
  /** Height and width of the crop. @default null (no crop) */
  crop_shape: sizeOrNull(null),
  /** Crop at random in training; the middle otherwise. @default true */
  crop_is_random: boolean(true),
  /** torchvision's pretrained weights for the ResNet; null: none. @default 'ResNet18_Weights.IMAGENET1K_V1' */
  pretrained_backbone_weights: textOrNull('ResNet18_Weights.IMAGENET1K_V1'),
  /** GroupNorm instead of BatchNorm in the ResNet; not with pretrained weights. @default false */
  use_group_norm: boolean(false),
  /** Key points per image. @default 32 */
  spatial_softmax_num_keypoints: integer(32),
  /** A ResNet for each camera instead of one for all. @default true */
  use_separate_rgb_encoder_per_camera: boolean(true),
  /** Channels of the U-Net's stages. @default [512, 1024, 2048] */
  down_dims: integers([512, 1024, 2048]),
  /** Kernel of the U-Net's convolutions over time, odd. @default 5 */
  kernel_size: integer(5),
  /** Groups of the U-Net's GroupNorm. @default 8 */
  n_groups: integer(8),
  /** Width of the embedding of the diffusion step. @default 128 */
  diffusion_step_embed_dim: integer(128),
  /** Condition by scale and shift instead of shift alone. @default true */
  use_film_scale_modulation: boolean(true),
  /** Sampler. @default 'DDPM' */
  noise_scheduler_type: choice(['DDPM', 'DDIM'], 'DDPM'),
  /** Diffusion steps in training. @default 100 */
  num_train_timesteps: integer(100),
  /** Schedule of the noise, by diffusers' names. @default 'squaredcos_cap_v2' */
  beta_schedule: text('squaredcos_cap_v2'),
  /** Variance of the noise that the first diffusion step adds. @default 0.0001 */
  beta_start: number(0.0001),
  /** Variance of the noise that the last diffusion step adds. @default 0.02 */
  beta_end: number(0.02),
  /** What the U-Net predicts: the noise or the clean actions. @default 'epsilon' */
  prediction_type: choice(['epsilon', 'sample'], 'epsilon'),
  /** Clip the sample at every step of inference. @default true */
  clip_sample: boolean(true),
  /** Largest magnitude of a clipped sample. @default 1 */
  clip_sample_range: number(1),
  /** Diffusion steps at inference. @default null (as many as in training) */
  num_inference_steps: integerOrNull(null),
} as const satisfies Fields

/** Fields of `DiffusionConfig` that the pipeline decides. */
export const diffusionManaged = {
  normalization_mapping: managed(
    modes({ VISUAL: 'MEAN_STD', STATE: 'MIN_MAX', ACTION: 'MIN_MAX' }),
    'normalize, and visual of the model',
  ),
  gradient_checkpointing: managed(boolean(false), 'modules.unet: recompute'),
  compile_model: managed(boolean(false), 'fixed: torch.compile would rename the U-Net in the state dict'),
  compile_mode: managed(text('reduce-overhead'), 'fixed: nothing is compiled'),
  do_mask_loss_for_padding: managed(boolean(false), 'model: padding'),
  optimizer_lr: managed(number(1e-4), 'training: lr'),
  optimizer_betas: managed(pair([0.95, 0.999]), 'training: optimizer'),
  optimizer_eps: managed(number(1e-8), 'training: optimizer'),
  optimizer_weight_decay: managed(number(1e-6), 'training: weightDecay'),
  scheduler_name: managed(text('cosine'), 'training: schedule'),
  scheduler_warmup_steps: managed(count(500), 'training: schedule'),
} as const satisfies ManagedFields

type DiffusionConfig = Values<typeof diffusionFields & typeof diffusionManaged>

/** Facts of a Diffusion Policy. */
export function diffusion(description: PolicyDescription): PolicyFacts {
  const { values: config, problems } = readConfig('diffusion', diffusionFields, diffusionManaged, description.config)
  const state = known(description.stateDim)
  const actions = known(description.actionDim)
  const sizes = known(description.imageSizes)
  const cameras = description.cameras.length
  const norm = config.use_group_norm ? 'group' : 'batch'
  const vision = torchvisionResnet(config.vision_backbone, norm, ['0', '1', '4', '5', '6', '7'])
  const points = config.spatial_softmax_num_keypoints
  const encoders = config.use_separate_rgb_encoder_per_camera
    ? Array.from({ length: cameras }, (_, index) => `diffusion.rgb_encoder.${String(index)}`)
    : ['diffusion.rgb_encoder']
  const seen = seenSize(config, sizes === undefined ? undefined : Object.values(sizes)[0])
  const condition =
    state === undefined
      ? undefined
      : (state + 2 * points * cameras) * config.n_obs_steps + config.diffusion_step_embed_dim
  const stages = config.down_dims.length

  const modules: PolicyModule[] = [
    policyModule({
      name: 'vision',
      patterns: encoders.map((root) => `${root}.backbone.*`),
      blocks: encoders.map((root) => `${root}.backbone.*.*`),
      liveBlocks: encoders.map(() => vision.blocks),
      units: encoders.map((root) => `${root}.backbone`),
      parameters: encoders.flatMap((root) =>
        vision.parameters.map((parameter) => ({ ...parameter, name: `${root}.backbone.${parameter.name}` })),
      ),
      buffers: encoders.flatMap((root) =>
        vision.buffers.map((buffer) => ({ ...buffer, name: `${root}.backbone.${buffer.name}` })),
      ),
    }),
    policyModule({
      name: 'projector',
      patterns: encoders.flatMap((root) => [`${root}.pool.*`, `${root}.out.*`]),
      units: encoders.flatMap((root) => [`${root}.pool`, `${root}.out`]),
      parameters: encoders.flatMap((root) => [
        ...convLayer(`${root}.pool.nets`, vision.width, points, 1, true),
        ...linearLayer(`${root}.out`, 2 * points, 2 * points),
      ]),
      buffers:
        seen === undefined
          ? undefined
          : encoders.map((root) => ({
              name: `${root}.pool.pos_grid`,
              shape: [mapSide(seen[0]) * mapSide(seen[1]), 2],
            })),
    }),
    policyModule({
      name: 'unet',
      patterns: ['diffusion.unet.*'],
      // Residual blocks and the convolutions between them, which are called too.
      blocks: [
        'diffusion.unet.down_modules.*.*',
        'diffusion.unet.mid_modules.*',
        ...(stages > 1 ? ['diffusion.unet.up_modules.*.*'] : []),
      ],
      liveBlocks: [3 * stages - 1, 2, ...(stages > 1 ? [3 * (stages - 1)] : [])],
      units: ['diffusion.unet'],
      parameters: condition === undefined || actions === undefined ? undefined : unet(config, actions, condition),
    }),
  ]
  return {
    type: 'diffusion',
    modules: problems.length > 0 ? undescribed(modules) : modules,
    values: config,
    normalization: config.normalization_mapping,
    recipe: {
      optimizer: 'adam',
      lr: config.optimizer_lr,
      betas: config.optimizer_betas,
      eps: config.optimizer_eps,
      weightDecay: config.optimizer_weight_decay,
      clip: 10,
      lrFactors: {},
      weightDecayFactors: {},
      schedule: { kind: 'cosine', warmup: config.scheduler_warmup_steps },
      source: 'lerobot/policies/diffusion/configuration_diffusion.py, lerobot/optim/optimizers.py',
    },
    chunk: config.horizon,
    actionSteps: config.n_action_steps,
    observationSteps: config.n_obs_steps,
    firstAction: 1 - config.n_obs_steps,
    padded: { state: null, action: null },
    mask: { kind: 'none' },
    joint: null,
    sequence: {
      perImage: 0,
      images: cameras * config.n_obs_steps,
      language: 0,
      state: 0,
      actions: config.horizon,
    },
    weights: { missing: [], unexpected: oldStatistics, tied: [] },
    batchNorm: config.use_group_norm
      ? []
      : encoders.flatMap((root) => [`${root}.backbone.1`, `${root}.backbone.*.bn?`, `${root}.backbone.*.downsample.1`]),
    problems: [
      ...problems,
      ...cameraProblems('diffusion', description.cameras),
      ...diffusionProblems(config, state, sizes),
      ...mapProblems(config, seen),
    ],
  }
}

/** What the ResNet sees: the crop, else the resized image, else the image. */
function seenSize(
  config: DiffusionConfig,
  image: readonly [number, number] | undefined,
): readonly [number, number] | undefined {
  const resized = config.resize_shape
  if (resized !== null) {
    const { crop_ratio: ratio } = config
    return ratio < 1 ? [Math.trunc(resized[0] * ratio), Math.trunc(resized[1] * ratio)] : resized
  }
  return config.crop_shape ?? image
}

function mapProblems(config: DiffusionConfig, seen: readonly [number, number] | undefined): Problem[] {
  if (config.use_group_norm || seen === undefined || mapSide(seen[0]) * mapSide(seen[1]) > 1) return []
  return [
    {
      field: 'images',
      message: `Of images of ${seen.join('x')} the ResNet's last map is one cell, on which LeRobot's BatchNorm fails when it is built. More than 32 pixels on a side, or use_group_norm, mend it.`,
    },
  ]
}

function unet(config: DiffusionConfig, actions: number, condition: number): Parameter[] {
  const { kernel_size: kernel, down_dims: dims, diffusion_step_embed_dim: step } = config
  const root = 'diffusion.unet'
  const convBlock = (name: string, inputs: number, outputs: number): Parameter[] => [
    ...conv1d(`${name}.block.0`, inputs, outputs, kernel),
    ...normLayer(`${name}.block.1`, outputs),
  ]
  const residual = (name: string, inputs: number, outputs: number): Parameter[] => [
    ...convBlock(`${name}.conv1`, inputs, outputs),
    ...linearLayer(`${name}.cond_encoder.1`, condition, config.use_film_scale_modulation ? 2 * outputs : outputs),
    ...convBlock(`${name}.conv2`, outputs, outputs),
    ...(inputs === outputs ? [] : conv1d(`${name}.residual_conv`, inputs, outputs, 1)),
  ]
  const first = dims[0] ?? 0
  const last = dims.at(-1) ?? 0
  const parameters = [
    ...linearLayer(`${root}.diffusion_step_encoder.1`, step, 4 * step),
    ...linearLayer(`${root}.diffusion_step_encoder.3`, 4 * step, step),
  ]
  let inputs = actions
  for (const [stage, outputs] of dims.entries()) {
    const down = `${root}.down_modules.${String(stage)}`
    parameters.push(...residual(`${down}.0`, inputs, outputs), ...residual(`${down}.1`, outputs, outputs))
    if (stage < dims.length - 1) parameters.push(...conv1d(`${down}.2`, outputs, outputs, 3))
    inputs = outputs
  }
  parameters.push(...residual(`${root}.mid_modules.0`, last, last), ...residual(`${root}.mid_modules.1`, last, last))
  for (let stage = 0; stage < dims.length - 1; stage++) {
    const up = `${root}.up_modules.${String(stage)}`
    const outputs = dims[dims.length - 2 - stage] ?? 0
    const wide = dims[dims.length - 1 - stage] ?? 0
    // The skip connection comes beside what comes from below.
    parameters.push(...residual(`${up}.0`, 2 * wide, outputs), ...residual(`${up}.1`, outputs, outputs))
    parameters.push(...convTranspose1d(`${up}.2`, outputs, outputs, 4))
  }
  return [
    ...parameters,
    ...convBlock(`${root}.final_conv.0`, first, first),
    ...conv1d(`${root}.final_conv.1`, first, actions, 1),
  ]
}

function diffusionProblems(
  config: DiffusionConfig,
  state: number | undefined,
  sizes: ImageSizes | undefined,
): Problem[] {
  const problems = stateProblems('diffusion', state)
  const say = (field: string, message: string): void => {
    problems.push({ field, message })
  }
  const { down_dims: dims } = config
  const factor = 2 ** dims.length
  if (config.horizon % factor !== 0)
    say(
      'horizon',
      `horizon (${config.horizon}) is no multiple of ${factor}, as ${dims.length} stages of the U-Net ask.`,
    )
  const executable = config.horizon - config.n_obs_steps + 1
  if (config.n_action_steps > executable)
    say(
      'n_action_steps',
      `n_action_steps (${config.n_action_steps}) is above ${executable}: the horizon of ${config.horizon} begins with the first of ${config.n_obs_steps} observed frames.`,
    )
  if (config.kernel_size % 2 === 0)
    say('kernel_size', `kernel_size (${config.kernel_size}) must be odd, or a convolution changes the length.`)
  const undivided = dims.find((dim) => dim % config.n_groups !== 0)
  if (undivided !== undefined)
    say('n_groups', `n_groups (${config.n_groups}) does not divide the ${undivided} channels of down_dims.`)
  if (config.use_group_norm && config.pretrained_backbone_weights !== null)
    say(
      'use_group_norm',
      'Pretrained weights of the ResNet need its BatchNorm: use_group_norm and pretrained_backbone_weights exclude each other.',
    )
  if (config.crop_ratio <= 0 || config.crop_ratio > 1)
    say('crop_ratio', `crop_ratio is above 0 and at most 1, not ${config.crop_ratio}.`)
  if (sizes === undefined) return problems
  const [first, ...others] = Object.entries(sizes)
  for (const [camera, [height, width]] of others)
    if (first !== undefined && (height !== first[1][0] || width !== first[1][1]))
      say(
        'images',
        `Diffusion Policy needs images of one size: ${first[0]} has ${first[1].join('x')}, ${camera} ${height}x${width}.`,
      )
  const crop = config.resize_shape === null ? config.crop_shape : null
  if (crop !== null && first !== undefined && (crop[0] > first[1][0] || crop[1] > first[1][1]))
    say('crop_shape', `crop_shape ${crop.join('x')} does not fit into images of ${first[1].join('x')}.`)
  return problems
}
