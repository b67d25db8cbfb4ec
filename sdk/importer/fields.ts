/**
 * Fields of lerobot-train's configuration in LeRobot 0.6.1, beside those of the policies, which the catalog has.
 * Source: lerobot/configs/train.py, lerobot/configs/default.py, lerobot/optim, lerobot/envs/configs.py. A test holds the tables equal to
 * LeRobot's own classes.
 */
import * as z from 'zod'

import {
  anyInteger,
  boolean,
  choice,
  count,
  integer,
  number,
  pair,
  text,
  textOrNull,
  textsOrNull,
  type Field,
  type Fields,
  type Values,
} from '../catalog/lerobot/fields.ts'

const field = <T>(schema: z.ZodType<T>, value: NoInfer<T>): Field<T> => ({ schema, default: value })
const countOrNull = (value: number | null) => field(z.number().int().nonnegative().nullable(), value)
const names = (value: Readonly<Record<string, string>>) => field(z.record(z.string(), z.string()), value)
const anything = (value: unknown) => field(z.unknown(), value)
const numberFromZero = z.number().nonnegative().nullable()

/** `TrainPipelineConfig` without its parts. */
export const trainFields = {
  output_dir: textOrNull(null),
  job_name: textOrNull(null),
  resume: boolean(false),
  seed: countOrNull(1000),
  cudnn_deterministic: boolean(false),
  num_workers: count(4),
  batch_size: integer(8),
  prefetch_factor: integer(4),
  persistent_workers: boolean(true),
  dataloader_multiprocessing_context: textOrNull('spawn'),
  steps: integer(100_000),
  env_eval_freq: anyInteger(20_000),
  log_freq: anyInteger(200),
  eval_steps: anyInteger(0),
  max_eval_samples: anyInteger(0),
  tolerance_s: number(1e-4),
  save_checkpoint: boolean(true),
  save_freq: anyInteger(20_000),
  use_policy_training_preset: boolean(true),
  save_checkpoint_to_hub: boolean(false),
  rename_map: names({}),
  checkpoint_path: textOrNull(null),
} as const satisfies Fields

/** `DatasetConfig` without `image_transforms`. */
export const datasetFields = {
  repo_id: text(''),
  repo_type: choice(['dataset', 'bucket'], 'dataset'),
  root: textOrNull(null),
  episodes: field(z.array(z.number().int().nonnegative()).min(1).nullable(), null),
  revision: textOrNull(null),
  use_imagenet_stats: boolean(true),
  video_backend: textOrNull(null),
  return_uint8: boolean(false),
  depth_output_unit: choice(['mm', 'm'], 'mm'),
  streaming: boolean(false),
  eval_split: field(z.number().min(0).lt(1), 0),
} as const satisfies Fields

const transform = z.strictObject({
  weight: z.number().default(1),
  type: z.string(),
  kwargs: z.record(z.string(), z.unknown()).default({}),
})
export type Transform = z.output<typeof transform>

const jitter = (kwarg: string, low: number, high: number, type = 'ColorJitter'): Transform => ({
  weight: 1,
  type,
  kwargs: { [kwarg]: [low, high] },
})

/** `ImageTransformsConfig`. */
export const transformFields = {
  enable: boolean(false),
  max_num_transforms: integer(3),
  random_order: boolean(false),
  tfs: field(z.record(z.string(), transform), {
    brightness: jitter('brightness', 0.8, 1.2),
    contrast: jitter('contrast', 0.8, 1.2),
    saturation: jitter('saturation', 0.5, 1.5),
    hue: jitter('hue', -0.05, 0.05),
    sharpness: jitter('sharpness', 0.5, 1.5, 'SharpnessJitter'),
    affine: { weight: 1, type: 'RandomAffine', kwargs: { degrees: [-5, 5], translate: [0.05, 0.05] } },
  }),
} as const satisfies Fields

/** `EvalConfig`; LeRobot replaces a batch size of 0 by one that fits the machine. */
export const evalFields = {
  n_episodes: integer(50),
  batch_size: count(0),
  use_async_envs: boolean(true),
  recording: boolean(false),
  recording_repo_id: textOrNull(null),
  recording_private: boolean(false),
} as const satisfies Fields

/** `WandBConfig`. */
export const wandbFields = {
  enable: boolean(false),
  disable_artifact: boolean(false),
  project: text('lerobot'),
  entity: textOrNull(null),
  notes: textOrNull(null),
  run_id: textOrNull(null),
  mode: textOrNull(null),
  add_tags: boolean(true),
} as const satisfies Fields

/** `PeftConfig`. */
export const peftFields = {
  target_modules: field(z.union([z.array(z.string()), z.string()]).nullable(), null),
  full_training_modules: textsOrNull(null),
  method_type: text('LORA'),
  init_type: textOrNull(null),
  r: integer(16),
  lora_alpha: field(z.number().int().positive().nullable(), null),
} as const satisfies Fields

/** `JobConfig`. */
export const jobFields = {
  target: textOrNull(null),
  image: text('huggingface/lerobot-gpu:latest'),
  timeout: textOrNull('2d'),
  detach: boolean(false),
  tags: field(z.array(z.string()), []),
} as const satisfies Fields

/** `MetaworldEnv`, the one simulator that both sides have. */
export const metaworldFields = {
  task: text('metaworld-push-v2'),
  fps: integer(80),
  features: anything({ action: { type: 'ACTION', shape: [4] } }),
  features_map: names({
    action: 'action',
    agent_pos: 'observation.state',
    top: 'observation.image',
    'pixels/top': 'observation.image',
  }),
  max_parallel_tasks: integer(1),
  disable_env_checker: boolean(true),
  episode_length: integer(400),
  obs_type: choice(['pixels', 'pixels_agent_pos'], 'pixels_agent_pos'),
  render_mode: text('rgb_array'),
  multitask_eval: boolean(true),
} as const satisfies Fields

const shared = (weightDecay: number) => ({
  lr: number(1e-3),
  weight_decay: number(weightDecay),
  grad_clip_norm: number(10),
})

/** Optimizers, by type. What the two that cannot be imported take is not looked at. */
export const optimizerFields = {
  adam: { ...shared(0), betas: pair([0.9, 0.999]), eps: number(1e-8) },
  adamw: { ...shared(1e-2), betas: pair([0.9, 0.999]), eps: number(1e-8) },
  sgd: { ...shared(0), momentum: number(0), dampening: number(0), nesterov: boolean(false) },
  'xvla-adamw': {
    lr: number(1e-4),
    weight_decay: number(0),
    grad_clip_norm: number(10),
    betas: pair([0.9, 0.99]),
    eps: number(1e-8),
    soft_prompt_lr_scale: number(1),
    soft_prompt_warmup_lr_scale: field(numberFromZero, null),
  },
  multi_adam: { ...shared(0), optimizer_groups: anything({}) },
} as const satisfies Readonly<Record<string, Fields>>

/** Schedulers, by type. */
export const schedulerFields = {
  diffuser: { name: text('cosine'), num_warmup_steps: countOrNull(null) },
  constant_with_warmup: { num_warmup_steps: count(1000) },
  cosine_annealing_with_warmup: { num_warmup_steps: countOrNull(null) },
  cosine_decay_with_warmup: {
    num_warmup_steps: countOrNull(null),
    num_decay_steps: countOrNull(null),
    peak_lr: field(numberFromZero, null),
    decay_lr: field(numberFromZero, null),
  },
  vqbet: { num_warmup_steps: countOrNull(null), num_vqvae_training_steps: countOrNull(null), num_cycles: number(0.5) },
} as const satisfies Readonly<Record<string, Fields>>

/** Fields of other releases, by their place in the configuration, with what to know of them. */
export const otherReleases: Readonly<Record<string, string>> = {
  checkpoint_format: 'It belongs to a newer LeRobot.',
  parallelism: 'It belongs to a newer LeRobot.',
  accelerator: 'It belongs to a newer LeRobot.',
  ema: 'It belongs to a newer LeRobot.',
  'dataset.exclude_episodes': 'It belongs to a newer LeRobot.',
  'policy.use_visual_memory': 'It belongs to a newer LeRobot.',
  'policy.use_proprioceptive_memory': 'It belongs to a newer LeRobot.',
  'policy.memory_frames': 'It belongs to a newer LeRobot.',
  'policy.memory_stride': 'It belongs to a newer LeRobot.',
  'policy.memory_temporal_attention_every': 'It belongs to a newer LeRobot.',
  'policy.rtc_training_max_delay': 'It belongs to a newer LeRobot.',
  eval_freq: 'Before 0.6.0 this was the name of env_eval_freq.',
  use_rabc: 'Before 0.6.0 this was part of what is now sample_weighting.',
  'dataset.local_files_only': 'It belongs to an older LeRobot.',
}

export type Train = Values<typeof trainFields>
export type DatasetPart = Values<typeof datasetFields>
export type Transforms = Values<typeof transformFields>
export type EvalPart = Values<typeof evalFields>
export type WandbPart = Values<typeof wandbFields>
export type PeftPart = Values<typeof peftFields>
export type JobPart = Values<typeof jobFields>
export type MetaworldPart = Values<typeof metaworldFields>
