import { defineRule } from '../rule.ts'
import { assignments, setupLines, withoutLine } from '../setup.ts'

/** Set by torchrun for each process. */
const OWN =
  /^(RANK|LOCAL_RANK|GROUP_RANK|ROLE_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|TORCHELASTIC_\w+)$/

export const setupOverridesLauncher = defineRule({
  id: 'VLA806',
  name: 'setup-overrides-launcher',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'The setup sets no variable by which torchrun starts its processes.',
  why: 'torchrun sets rank, world size and rendezvous of each process itself, so that such a line does nothing, though it reads as if it did. Variables PET_... stand in for every argument that the launch script does not give: restarts, logs, the start method.',
  fix: 'Remove the line: the launch script derives all of it from `hardware` and from Slurm.',
  suppress: { allowed: false, because: 'The failure is silent: the run is not the one that the line describes.' },
  sources: [
    {
      title: 'torch 2.11',
      at: 'torch/distributed/elastic/agent/server/local_elastic_agent.py',
      locator: 'worker_env: RANK, WORLD_SIZE, MASTER_ADDR, ...',
    },
    { title: 'torch 2.11', at: 'torch/distributed/argparse_util.py', locator: 'env: PET_{dest}' },
    {
      title: 'Kubeflow trainer',
      at: 'https://github.com/kubeflow/trainer',
      locator: 'torch plugin, Validate: PET_* is refused',
    },
  ],
  messages: {
    ignored: 'The setup sets {name}, which torchrun sets for each process anyway.',
    argument: "The setup sets {name}, which changes torchrun's arguments behind the launch script's back.",
  },
  valid: [
    {
      caption: 'Variables that are nobody else sets.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export NCCL_SOCKET_IFNAME=ib0', 'export HF_HOME=/scratch/hub'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'An address for the rendezvous.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export MASTER_ADDR=$(hostname)'] })],`,
    },
    {
      caption: 'Restarts by the back door.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export PET_MAX_RESTARTS=3'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      for (const { name } of assignments(text)) {
        const own = OWN.test(name)
        if (!own && !name.startsWith('PET_')) continue
        report({
          message: own ? 'ignored' : 'argument',
          at: ['launch'],
          path,
          data: { name },
          fixes: [withoutLine(path)],
        })
      }
    }
  },
})
