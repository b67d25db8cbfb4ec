import { defineRule } from '../rule.ts'
import { setupLines, withoutLine } from '../setup.ts'

export const sbatchLineTooLate = defineRule({
  id: 'VLA813',
  name: 'sbatch-line-too-late',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'Options of sbatch do not stand in the setup.',
  why: 'sbatch stops reading `#SBATCH` lines at the first command of the script, and the setup comes behind it: the option is a comment.',
  fix: 'Give the option to sbatch when you submit (sbatch --mem=0 launch/slurm.sbatch), or use an option of slurm().',
  suppress: { allowed: false, because: 'The failure is silent: the job runs without the option.' },
  sources: [
    {
      title: 'Slurm, sbatch',
      at: 'https://slurm.schedmd.com/sbatch.html',
      locator:
        'sbatch will stop processing further #SBATCH directives once the first non-comment non-whitespace line has been reached',
    },
    { title: 'generated launcher', at: 'sdk/emit/launch/slurm.ts', locator: 'the setup follows set -euo pipefail' },
  ],
  messages: { late: "Slurm does not read '{line}' there." },
  valid: [
    {
      caption: 'A comment and a command.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['# CUDA of this cluster', 'module load cuda/12.8'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'Memory of the node.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['#SBATCH --mem=0'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      if (!/^#\s?SBATCH\b/.test(text)) continue
      report({ message: 'late', at: ['launch'], path, data: { line: text }, fixes: [withoutLine(path)] })
    }
  },
})
