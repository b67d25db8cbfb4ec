/**
 * How the constructors of the vocabulary turn arguments into fields: which argument holds which field of what they return.
 *
 * `'*'` is an object argument whose keys are fields; a name is one field. `[['name', '*']]` is an argument that is either a value for
 * `name` or such an object. A test calls every constructor and asserts that each leaf of the result is found again.
 */
export type Argument = string | readonly [field: string, options: '*']

export const CONSTRUCTORS: Readonly<Record<string, readonly Argument[]>> = {
  defineVLAPipeline: ['*'],
  composed: ['*'],
  openvla: ['*'],
  timmVision: ['name', '*'],
  transformersVision: ['name', '*'],
  fused: ['towers', '*'],
  linear: [],
  mlp: ['*'],
  fusedMlp: [],
  spatialSoftArgmax: ['*'],
  causalLM: [['name', '*'], '*'],
  tokens: ['*'],
  regression: ['*'],
  flowMatching: ['*'],
  lerobotDataset: ['*'],
  imageAugmentation: ['*'],
  gpus: ['gpu', '*'],
  cpus: ['*'],
  until: ['when', '*'],
  phase: ['*'],
  lastLayers: ['lastLayers'],
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
