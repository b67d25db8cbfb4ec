import { defineRule } from '../rule.ts'
import { assignments, setupLines, withoutLine } from '../setup.ts'

/** Tokens of the hub, of GitHub and GitLab, of clouds and of model providers, by their own prefixes. */
const TOKEN = /\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}|sk-[\w-]{20,})/
/** Variables that hold a secret, unless they are read from elsewhere. */
const SECRET = /(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY)$/

export const secretInSetup = defineRule({
  id: 'VLA807',
  name: 'secret-in-setup',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'No token stands in the setup.',
  why: 'The lines are copied as they are into launch/slurm.sbatch, into plan.json and into every checkpoint: whoever gets a package gets the token.',
  fix: 'Log in on the cluster (`wandb login`, `hf auth login`), or read the token from a file that stays there: export HF_TOKEN=$(cat ~/.hf-token).',
  suppress: { allowed: false, because: 'A secret in a file that travels cannot be taken back.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/tracking.py',
      locator: 'the key comes from the environment',
    },
    {
      title: 'GitHub, secret scanning',
      at: 'https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns',
      locator: 'prefixes of tokens',
    },
  ],
  messages: {
    variable: 'The setup holds the value of {name}.',
    token: 'The setup holds what looks like a token.',
  },
  valid: [
    {
      caption: 'Read from a file of the cluster.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export WANDB_API_KEY=$(cat ~/.wandb-key)'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'The key of the tracker.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567'] })],`,
    },
    {
      caption: 'A token in a command.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['hf auth login --token hf_exampleexampleexampleexample'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      const variable = assignments(text).find(
        ({ name, value }) => SECRET.test(name) && value.length >= 8 && !/[$`]/.test(value),
      )
      const fixes = [withoutLine(path)]
      if (variable !== undefined)
        report({ message: 'variable', at: ['launch'], path, data: { name: variable.name }, fixes })
      else if (TOKEN.test(text)) report({ message: 'token', at: ['launch'], path, data: {}, fixes })
    }
  },
})
