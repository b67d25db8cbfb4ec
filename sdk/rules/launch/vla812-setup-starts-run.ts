import { defineRule } from '../rule.ts'
import { commands, setupLines, withoutLine } from '../setup.ts'

const START =
  /^(?:\S+=\S+\s+)*(?:torchrun\b|accelerate\s+launch\b|deepspeed\b|lerobot-train\b|(?:srun\b.*\s)?\S*python\S*\s.*(?:\btrain\.py\b|torch\.distributed\.(?:run|launch)\b))/

export const setupStartsRun = defineRule({
  id: 'VLA812',
  name: 'setup-starts-run',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'The setup starts no training.',
  why: 'The launch script starts the run itself behind the setup, on every node. A training that the setup starts runs on the first node alone, waits there for the others, or runs before the declared one.',
  fix: 'Remove the line; arguments of train.py are those of sbatch: sbatch launch/slurm.sbatch --allow-change training.lr.',
  suppress: { allowed: false, because: 'The failure is certain: the run is started twice.' },
  sources: [
    {
      title: 'generated launcher',
      at: 'sdk/emit/launch/slurm.ts',
      locator: 'srun ... torch.distributed.run ... train.py "$@"',
    },
    {
      title: 'torchtitan',
      at: 'https://github.com/pytorch/torchtitan/blob/main/multinode_trainer.slurm',
      locator: 'one task per node starts torchrun',
    },
  ],
  messages: { starts: "The setup starts a training of its own: '{command}'." },
  valid: [
    {
      caption: 'A look at the GPUs.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['srun --ntasks-per-node=1 nvidia-smi'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'The launch line of another script.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['srun torchrun --nproc-per-node=8 train.py', 'torchrun --nproc-per-node=8 train.py'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      const command = commands(text.replace(/^srun\s+(?=torchrun)/, '')).find((candidate) => START.test(candidate))
      if (command === undefined) continue
      report({ message: 'starts', at: ['launch'], path, data: { command }, fixes: [withoutLine(path)] })
    }
  },
})
