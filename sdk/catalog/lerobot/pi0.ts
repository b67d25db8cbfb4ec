/**
 * pi0 in LeRobot 0.6.1.
 * Source: lerobot/policies/pi0/configuration_pi0.py, modeling_pi0.py.
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

/** Fields of `PI0Config` that a user sets. */
export const pi0Fields = {
  ...piFields,
  /** Tokens of the instruction, padded to this length. @default 48 */
  tokenizer_max_length: integer(48),
} as const satisfies Fields

/** Fields of `PI0Config` that the pipeline decides. */
export const pi0Managed = {
  ...piManaged,
  normalization_mapping: managed(modes({ VISUAL: 'IDENTITY', STATE: 'MEAN_STD', ACTION: 'MEAN_STD' }), 'normalize'),
} as const satisfies ManagedFields

/** Facts of a pi0 policy. */
export function pi0(description: PolicyDescription): PolicyFacts {
  const { values: config, problems } = readConfig('pi0', pi0Fields, pi0Managed, description.config)
  const width = expertWidth(config)
  const layers = ['state_proj', 'action_in_proj', 'action_out_proj', 'action_time_mlp_in', 'action_time_mlp_out']
  const modules = [
    ...piModules(config, false),
    policyModule({
      name: 'heads',
      patterns: ['model.state_proj.*', 'model.action_*'],
      units: layers.map((layer) => `model.${layer}`),
      parameters: [
        ...linearLayer('model.state_proj', config.max_state_dim, width),
        ...linearLayer('model.action_in_proj', config.max_action_dim, width),
        ...linearLayer('model.action_out_proj', width, config.max_action_dim),
        ...linearLayer('model.action_time_mlp_in', 2 * width, width),
        ...linearLayer('model.action_time_mlp_out', width, width),
      ],
    }),
  ]
  const state = known(description.stateDim)
  return {
    type: 'pi0',
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
      source: 'lerobot/policies/pi0/configuration_pi0.py',
    },
    chunk: config.chunk_size,
    actionSteps: config.n_action_steps,
    observationSteps: 1,
    firstAction: 0,
    padded: { state: config.max_state_dim, action: config.max_action_dim },
    mask: { kind: 'blockCausal', blocks: [['images', 'language'], ['state'], ['actions']], actions: 'bidirectional' },
    joint: piJoint,
    sequence: {
      perImage: piTokens(config),
      images: description.cameras.length + config.empty_cameras,
      language: config.tokenizer_max_length,
      state: 1,
      actions: config.chunk_size,
    },
    weights: { missing: piMissing, unexpected: oldStatistics, tied: [] },
    batchNorm: [],
    problems: [
      ...problems,
      ...piProblems(config),
      ...chunkProblems(config.n_action_steps, 'chunk_size', config.chunk_size),
      ...stateProblems('pi0', state),
      ...paddingProblems('state', state, config.max_state_dim, 'the projection does not fit'),
      ...paddingProblems('action', known(description.actionDim), config.max_action_dim, 'the projection does not fit'),
    ],
  }
}
