import { defineRule } from '../rule.ts'

const PREFIX = 'lerobot_policy_'

export const pluginNotFoundByLerobot = defineRule({
  id: 'VLA549',
  name: 'plugin-not-found-by-lerobot',
  area: 'policies',
  severity: 'warning',
  since: '0.1.0',
  summary: "A plugin whose policy is packaged has a name by which LeRobot's programs find it.",
  why: 'The run imports the plugin by its name. lerobot-eval and lerobot-record import what is installed under lerobot_policy_..., and nothing else: on the robot the policy type is unknown.',
  fix: 'Name the distribution lerobot_policy_<name>.',
  suppress: { allowed: true, when: 'The robot imports the plugin itself.' },
  sources: [
    { title: 'LeRobot', at: 'lerobot/utils/import_utils.py', locator: 'register_third_party_plugins: prefixes' },
    {
      title: 'LeRobot issue 2829',
      at: 'https://github.com/huggingface/lerobot/issues/2829',
      locator: 'the policy of a plugin was not found',
    },
  ],
  messages: { unfound: "LeRobot finds plugins by the prefix {prefix}; '{plugin}' has none." },
  valid: [
    {
      caption: 'Found.',
      code: `model: lerobotPolicy({ type: 'mine', plugin: 'lerobot_policy_mine', cameras: ['front'], chunk: 8, images: 'identity', modules: { policy: { parameters: ['*'] } } }),
export: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'Not found.',
      code: `model: lerobotPolicy({ type: 'mine', plugin: 'my_policies', cameras: ['front'], chunk: 8, images: 'identity', modules: { policy: { parameters: ['*'] } } }),
export: [lerobot()],`,
    },
  ],
  check({ plan, report }) {
    const { model } = plan
    if (model.family !== 'lerobot' || model.plugin === null || model.plugin.startsWith(PREFIX)) return
    if (!plan.exports.some(({ kind }) => kind === 'lerobot')) return
    report({
      message: 'unfound',
      at: ['model', 'plugin'],
      data: { prefix: PREFIX, plugin: model.plugin },
      related: [{ at: ['exports'], note: 'a LeRobot package' }],
    })
  },
})
