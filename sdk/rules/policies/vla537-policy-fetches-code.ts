import { remoteCodeOf } from '../../catalog/lerobot/registered.ts'
import { defineRule } from '../rule.ts'

export const policyFetchesCode = defineRule({
  id: 'VLA537',
  name: 'policy-fetches-code',
  area: 'policies',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A policy that loads Python of a hub repository is used knowingly, with the files at hand.',
  why: "LeRobot loads the files with trust_remote_code=True: what stands in that repository runs in every training process, and on the robot, with their rights. On machines without the hub the run ends when the processors are made, and pi0-FAST's own class only logs that it could not load them and decodes no action.",
  fix: 'Read the code, fetch it to a folder that travels with the project, and name that folder.',
  suppress: {
    allowed: true,
    when: 'The code was read, and the files are pinned and at hand where the policy trains and runs.',
  },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/processor/tokenizer_processor.py',
      locator: 'ActionTokenizerProcessorStep: trust_remote_code',
    },
    {
      title: 'LeRobot',
      at: 'lerobot/policies/pi0_fast/modeling_pi0_fast.py',
      locator: 'PI0FastPolicy.__init__: except Exception',
    },
  ],
  messages: { fetches: "The {what} of '{type}' is code of '{from}' that LeRobot fetches and runs ({field})." },
  valid: [
    {
      caption: 'A policy that runs no code but its own.',
      code: `model: lerobotPolicy({ type: 'vqbet', cameras: ['front'], chunk: 5, images: 'identity', modules: { policy: { parameters: ['*'] } } }),`,
    },
    {
      caption: 'A folder of the project.',
      code: `model: lerobotPolicy({ type: 'pi0_fast', cameras: ['front'], chunk: 5, images: 'identity', config: { action_tokenizer_name: './fast' }, modules: { policy: { parameters: ['*'] } } }),`,
    },
  ],
  invalid: [
    {
      caption: "pi0-FAST's action tokenizer.",
      code: `model: lerobotPolicy({ type: 'pi0_fast', cameras: ['front'], chunk: 5, images: 'identity', modules: { policy: { parameters: ['*'] } } }),`,
    },
  ],
  check({ plan, report }) {
    const { model } = plan
    if (model.family !== 'lerobot') return
    const code = remoteCodeOf(model.type, model.config)
    if (code === undefined || /^[./~]/.test(code.from)) return
    const { what, field, from } = code
    report({
      message: 'fetches',
      at: ['model', 'type'],
      path: ['model', 'type'],
      data: { what, type: model.type, from, field },
      fix: `Read the code of ${from} and fetch it: hf download ${from} --local-dir <folder>. Then name it in the model: config: { ${field}: './<folder>' }.`,
    })
  },
})
