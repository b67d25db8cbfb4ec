import { defineRule } from '../rule.ts'
import { commands, setupLines, withoutLine } from '../setup.ts'

export const setupLeavesFolder = defineRule({
  id: 'VLA811',
  name: 'setup-leaves-folder',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'The setup comes back to the script, and to its folder.',
  why: 'The launch script stands in the folder of the project and starts train.py from there; data and runs are found from there too. After `cd` it starts another train.py or none, after `exit` or `exec` nothing.',
  fix: 'Put what needs another folder into parentheses, (cd /data && ./stage.sh), and leave exit and exec out.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    {
      title: 'generated launcher',
      at: 'sdk/emit/launch/slurm.ts',
      locator: 'cd "${SLURM_SUBMIT_DIR}", then the setup, then train.py',
    },
    { title: 'bash', at: 'https://www.gnu.org/software/bash/manual/bash.html', locator: 'exec, exit, cd' },
  ],
  messages: {
    folder: "After '{command}' the script no longer stands in the project's folder.",
    end: "'{command}' ends the script before the run starts.",
  },
  valid: [
    {
      caption: 'In a subshell.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['(cd /data && ./stage.sh)'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'Another folder.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['cd /data && ./stage.sh'] })],`,
    },
    {
      caption: 'The last line of a script of its own.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['./stage.sh; exit 0'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      for (const command of commands(text)) {
        const [, word = ''] = /^(cd|pushd|exit|exec|return)\b(?!=)/.exec(command) ?? []
        if (word === '' || (word === 'exec' && /^exec\s+\d*[<>]/.test(command))) continue // exec with a redirection alone goes on
        report({
          message: word === 'cd' || word === 'pushd' ? 'folder' : 'end',
          at: ['launch'],
          path,
          data: { command },
          fixes: [withoutLine(path)],
        })
      }
    }
  },
})
