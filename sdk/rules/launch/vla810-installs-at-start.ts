import { defineRule } from '../rule.ts'
import { commands, setupLines, withoutLine } from '../setup.ts'

const INSTALL =
  /^(?:\S+=\S+\s+)*(?:(?:\S*python\S*\s+-m\s+)?pip3?\s+install|uv\s+(?:pip\s+install|sync|add)|(?:conda|mamba|micromamba)\s+(?:install|update|create)|poetry\s+install)\b/

export const installsAtStart = defineRule({
  id: 'VLA810',
  name: 'installs-at-start',
  area: 'launch',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Packages are installed before a run, not by it.',
  why: 'Every start and every requeue would install anew, while the GPUs wait, and get whatever is newest that day: the run that resumes is not the one that stopped. The preflight compares versions with requirements.lock and stops where they differ.',
  fix: 'Install requirements.lock once (`vla env`), and activate that environment in the setup.',
  suppress: { allowed: true, when: 'Nodes have no shared disk, and what is installed is pinned.' },
  sources: [
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/preflight.py', locator: 'versions' },
    {
      title: 'openpi issue 840',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/840',
      locator: 'torch upgraded beyond the pinned version',
    },
  ],
  messages: { installs: "The setup installs packages at every start: '{command}'." },
  valid: [
    {
      caption: 'An environment that is there.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['source /envs/vla/bin/activate'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'The newest of everything.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['source /envs/vla/bin/activate', 'pip install -U torch lerobot'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      const command = commands(text).find((candidate) => INSTALL.test(candidate))
      if (command === undefined) continue
      report({ message: 'installs', at: ['launch'], path, data: { command }, fixes: [withoutLine(path)] })
    }
  },
})
