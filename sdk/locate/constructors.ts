/**
 * How the constructors of the vocabulary turn arguments into fields: which argument holds which field of what they return.
 *
 * `'*'` is an object argument whose keys are fields; a name is one field. `[['source', '*']]` is an argument that is either a value for
 * `source` or such an object. A test calls every constructor and asserts that each leaf of the result is found again.
 */
export type Argument = string | readonly [field: string, options: '*']

export const CONSTRUCTORS: Readonly<Record<string, readonly Argument[]>> = {
  defineVLAPipeline: ['*'],
  composed: ['*'],
  openvla: ['*'],
  act: ['*'],
  diffusion: ['*'],
  smolvla: ['*'],
  pi0: ['*'],
  pi05: ['*'],
  xvla: ['*'],
  lerobotPolicy: ['*'],
  timmVision: ['name', '*'],
  transformersVision: ['source', '*'],
  fused: ['towers', '*'],
  linear: [],
  mlp: ['*'],
  fusedMlp: [],
  spatialSoftArgmax: ['*'],
  causalLM: [['source', '*'], '*'],
  tokens: ['*'],
  regression: ['*'],
  flowMatching: ['*'],
  lerobotDataset: ['*'],
  imageAugmentation: ['*'],
  gpus: ['gpu', '*'],
  cpus: ['*'],
  until: ['when', '*'],
  phase: ['*'],
  lastLayers: ['count'],
  lora: ['*'],
  fsdp2: ['*'],
  ddp: [],
  adamw: ['*'],
  cosine: ['*'],
  constant: ['*'],
  linearDecay: ['*'],
  tensorboard: [],
  jsonl: [],
  wandb: ['*'],
  simulation: ['*'],
  hf: ['*'],
  lerobot: ['*'],
  torchrun: [],
  slurm: ['*'],
  off: ['reason'],
}

/** The constructor that makes a value of some `kind`, where the two have different names. */
export const CONSTRUCTOR_OF_KIND: Readonly<Record<string, string>> = {
  timm: 'timmVision',
  transformers: 'transformersVision',
}
