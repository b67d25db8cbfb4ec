/**
 * pi0.5 in LeRobot 0.6.1: the state is part of the prompt, and the time conditions the expert's norms.
 * Source: lerobot/policies/pi05/configuration_pi05.py, modeling_pi05.py, processor_pi05.py.
 */
import { linearLayer } from '../parameters.ts'
import {
  chunkProblems,
  known,
  oldStatistics,
  paddingProblems,
  policyModule,
  stateProblems,
  undescribed,
  type PolicyDescription,
  type PolicyFacts,
} from './facts.ts'
import { integer, managed, modes, readConfig, type Fields, type ManagedFields } from './fields.ts'
import { expertWidth, piFields, piJoint, piManaged, piMissing, piModules, piProblems, piTokens } from './pi.ts'

/** Fields of `PI05Config` that a user sets. */
export const pi05Fields = {
  ...piFields,
  /** Tokens of the instruction with the state in it, padded to this length. @default 200 */
  tokenizer_max_length: integer(200),
} as const satisfies Fields

/** Fields of `PI05Config` that the pipeline decides. */
export const pi05Managed = {
  ...piManaged,
  normalization_mapping: managed(modes({ VISUAL: 'IDENTITY', STATE: 'QUANTILES', ACTION: 'QUANTILES' }), 'normalize'),
} as const satisfies ManagedFields

/** Facts of a pi0.5 policy. */
export function pi05(description: PolicyDescription): PolicyFacts {
  const { values: config, problems } = readConfig('pi05', pi05Fields, pi05Managed, description.config)
  const width = expertWidth(config)
  const layers = ['action_in_proj', 'action_out_proj', 'time_mlp_in', 'time_mlp_out']
  const modules = [
    ...piModules(config, true),
    policyModule({
      name: 'heads',
      patterns: ['model.action_*', 'model.time_mlp_*'],
      units: layers.map((layer) => `model.${layer}`),
      parameters: [
        ...linearLayer('model.action_in_proj', config.max_action_dim, width),
        ...linearLayer('model.action_out_proj', width, config.max_action_dim),
        ...linearLayer('model.time_mlp_in', width, width),
        ...linearLayer('model.time_mlp_out', width, width),
      ],
    }),
  ]
  const state = known(description.stateDim)
  return {
    type: 'pi05',
    modules: problems.length > 0 ? undescribed(modules) : modules,
    values: config,
    normalization: config.normalization_mapping,
    recipe: {
      optimizer: 'adamw',
      lr: config.optimizer_lr,
      betas: config.optimizer_betas,
      eps: config.optimizer_eps,
      weightDecay: config.optimizer_weight_decay,
      clip: config.optimizer_grad_clip_norm,
      lrFactors: {},
      weightDecayFactors: {},
      schedule: {
        kind: 'cosineDecay',
        warmup: config.scheduler_warmup_steps,
        decay: config.scheduler_decay_steps,
        floor: config.scheduler_decay_lr / config.optimizer_lr,
      },
      source: 'lerobot/policies/pi05/configuration_pi05.py',
    },
    chunk: config.chunk_size,
    actionSteps: config.n_action_steps,
    observationSteps: 1,
    firstAction: 0,
    padded: { state: null, action: config.max_action_dim }, // the state is text
    mask: { kind: 'blockCausal', blocks: [['images', 'language', 'state'], ['actions']], actions: 'bidirectional' },
    joint: piJoint,
    sequence: {
      perImage: piTokens(config),
      images: description.cameras.length + config.empty_cameras,
      language: config.tokenizer_max_length,
      state: 0,
      actions: config.chunk_size,
    },
    weights: {
      missing: piMissing,
      unexpected: [
        ...oldStatistics,
        { pattern: 'model.state_proj.*', because: 'pi0.5 has no projection of the state; openpi writes one with pi0' },
      ],
      tied: [],
    },
    batchNorm: [],
    problems: [
      ...problems,
      ...piProblems(config),
      ...chunkProblems(config.n_action_steps, 'chunk_size', config.chunk_size),
      ...stateProblems('pi05', state),
      ...paddingProblems('action', known(description.actionDim), config.max_action_dim, 'the projection does not fit'),
    ],
  }
}
