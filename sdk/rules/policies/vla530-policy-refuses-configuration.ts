import { findPolicy } from '../../catalog/lerobot/index.ts'
import { findLoop } from '../../catalog/lerobot/loop.ts'
import type { PolicyPlanModel } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const policyRefusesConfiguration = defineRule({
  id: 'VLA530',
  name: 'policy-refuses-configuration',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: "A policy's configuration is one that LeRobot accepts and that its model can run with.",
  why: 'LeRobot reads a configuration strictly and builds the model from it: an unknown field, a value of another type or sizes that do not fit end the run, some of them in its first update.',
  fix: 'Correct the field. The names are those of LeRobot 0.6.1.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/configs/policies.py',
      locator: 'PreTrainedConfig.from_pretrained: draccus, strict',
    },
    { title: 'LeRobot issue 3355', at: 'https://github.com/huggingface/lerobot/issues/3355', locator: 'DecodingError' },
  ],
  messages: {
    refused: '{problem}',
    inherited: 'Statistics are to be inherited, and no pretrained policy is named.',
  },
  valid: [
    {
      caption: 'A small ACT.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { dim_model: 128, n_heads: 4, pretrained_backbone_weights: null } }),`,
    },
  ],
  invalid: [
    {
      caption: 'Heads that do not divide the width.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { dim_model: 128, n_heads: 7 } }),`,
    },
    {
      caption: 'More actions executed than predicted.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { n_action_steps: 32 } }),`,
    },
    {
      caption: 'A policy without eyes.',
      code: `model: { kind: 'act', chunk: 16 },\ncameras: {},`,
    },
    {
      caption: 'Statistics of no policy.',
      code: `model: act({ cameras: ['front'], chunk: 16, statistics: 'inherited' }),`,
    },
  ],
  check({ plan, declared, origin, report }) {
    const { model } = plan
    if (model.family !== 'lerobot') return
    const { type, config } = model
    const family = findPolicy(type)
    if (model.statistics === 'inherited' && model.weights === null)
      report({
        message: 'inherited',
        at: ['model', 'statistics'],
        data: {},
        fix: "Name its directory in `weights`, or use the dataset's: statistics: 'dataset'.",
        fixes: [
          {
            label: "Use the dataset's",
            kind: 'suggestion',
            edits: [{ kind: 'remove', path: ['model', 'statistics'] }],
          },
        ],
      })
    // What a pretrained policy says that was not read, nobody can judge here.
    const whole = model.weights === null || origin(['model', 'config']) === 'lock'
    const chunkField = findLoop(type)?.chunkField
    for (const { field, message } of family?.describe(model).problems ?? []) {
      const own = Object.hasOwn(config, field)
      if (!own && !whole) continue
      const isChunk = field === chunkField && declared(['model', 'chunk'])
      const path = isChunk
        ? ['model', 'chunk']
        : declared(['model', 'config', field])
          ? ['model', 'config', field]
          : ['model']
      report({
        message: 'refused',
        at: own ? ['model', 'config', field] : ['model', 'config'],
        path,
        data: { problem: message },
        ...fixOf(field, model),
      })
    }
  },
})

/** What to do about a problem with something that is no field, or that has no right value of itself. */
function fixOf(field: string, { actionDim, stateDim }: PolicyPlanModel): { fix?: string } {
  const width = field === 'max_action_dim' ? actionDim : field === 'max_state_dim' ? stateDim : undefined
  if (typeof width === 'number')
    return {
      fix: `config: { ${field}: ${String(width)} } makes room, for a policy without pretrained weights or with weights of that width; else use data of fewer dimensions.`,
    }
  if (field === 'state')
    return { fix: "Leave `state: false` out, and name the dataset's proprioception (`state` of lerobotDataset)." }
  if (field === 'cameras') return { fix: "Name the policy's cameras: cameras: ['front']." }
  return {}
}
