/** What a pipeline.ts imports. */
export { lora, type Lora, type LoraOptions } from './declare/adapt.ts'
export { imageAugmentation, type ImageAugmentation, type ImageAugmentationOptions } from './declare/augment.ts'
export type { Checkpoint } from './declare/checkpoint.ts'
export { gib, type DType, type Duration, type Json, type Share, type VlaTypeError } from './declare/common.ts'
export {
  lerobotDataset,
  type CameraMap,
  type Data,
  type LerobotDataset,
  type LerobotDatasetOptions,
  type MixtureEntry,
} from './declare/data.ts'
export { simulation, type Simulation, type SimulationOptions } from './declare/evaluate.ts'
export { hf, lerobot, type Export, type ExportOptions } from './declare/export.ts'
export { lastLayers, phase, until, type Freeze, type LastLayers, type Phase, type Until } from './declare/freeze.ts'
export { cpus, gpus, type Cpus, type GpuOptions, type Gpus, type Hardware } from './declare/hardware.ts'
export { slurm, torchrun, type Launch, type SlurmOptions } from './declare/launch.ts'
export {
  causalLM,
  composed,
  flowMatching,
  fused,
  fusedMlp,
  linear,
  mlp,
  openvla,
  regression,
  spatialSoftArgmax,
  timmVision,
  tokens,
  transformersVision,
  type Action,
  type ComposedModel,
  type ComposedOptions,
  type Language,
  type Model,
  type OpenvlaModel,
  type OpenvlaOptions,
  type Projector,
  type Vision,
} from './declare/model.ts'
export type { ModuleOptions } from './declare/modules.ts'
export type { Normalization, Normalize } from './declare/normalize.ts'
export {
  act,
  diffusion,
  lerobotPolicy,
  pi0,
  pi05,
  smolvla,
  xvla,
  type LerobotPolicyOptions,
  type ModulePatterns,
  type PolicyModel,
  type PolicyOptions,
} from './declare/policies.ts'
export { ddp, fsdp2, type Fsdp2Options, type Parallel } from './declare/parallel.ts'
export { defineVLAPipeline, type Declaration } from './declare/pipeline.ts'
export { off, type Rules } from './declare/rules.ts'
export { tensorboard, jsonl, wandb, type Tracker, type WandbOptions } from './declare/track.ts'
export { adamw, constant, cosine, linearDecay, type Schedule, type Training } from './declare/training.ts'
