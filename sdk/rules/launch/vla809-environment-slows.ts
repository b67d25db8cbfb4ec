import type { Pipeline } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'
import { assignments, setupLines, withoutLine } from '../setup.ts'

interface Brake {
  readonly name: string
  readonly value: RegExp
  readonly effect: string
  readonly applies?: (plan: Pipeline) => boolean
}

const BRAKES: readonly Brake[] = [
  { name: 'CUDA_LAUNCH_BLOCKING', value: /^1$/, effect: 'makes the CPU wait for every kernel' },
  {
    name: 'TORCH_DISTRIBUTED_DEBUG',
    value: /^DETAIL$/i,
    effect: 'compares every collective over all ranks before it runs',
  },
  {
    name: 'NCCL_P2P_DISABLE',
    value: /^1$/,
    effect: 'sends what passes between the GPUs of a node through host memory',
  },
  {
    name: 'NCCL_IB_DISABLE',
    value: /^1$/,
    effect: 'sends what passes between the nodes over TCP',
    applies: ({ hardware }) => hardware.nodes > 1,
  },
  {
    name: 'CUDA_DEVICE_MAX_CONNECTIONS',
    value: /^1$/,
    effect: 'puts gathering and computing into one queue, so that FSDP2 cannot do both at once',
    applies: ({ parallel }) => parallel.kind === 'fsdp2' && parallel.world > 1,
  },
]

export const environmentSlows = defineRule({
  id: 'VLA809',
  name: 'environment-slows',
  area: 'launch',
  severity: 'warning',
  since: '0.1.0',
  summary:
    'The setup of a run sets no variable that is meant for looking for faults, or for another way of distributing.',
  why: 'Such a line was put there to find a fault, or comes from a script for tensor parallelism, and stays: the run is right and takes a multiple of the time.',
  fix: 'Remove the line.',
  suppress: { allowed: true, when: 'The fault is being looked for, or the hardware needs it; measured.' },
  sources: [
    {
      title: 'Megatron-LM',
      at: 'https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py',
      locator: 'FSDP always requires CUDA_DEVICE_MAX_CONNECTIONS other than 1',
    },
    {
      title: 'torch 2.11',
      at: 'https://docs.pytorch.org/docs/2.11/distributed.html',
      locator: 'TORCH_DISTRIBUTED_DEBUG: DETAIL may impact performance',
    },
    {
      title: 'NCCL',
      at: 'https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html',
      locator: 'NCCL_P2P_DISABLE, NCCL_IB_DISABLE',
    },
  ],
  messages: { brake: '{name}={value} {effect}.' },
  valid: [
    {
      caption: 'Messages for the log.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export NCCL_DEBUG=WARN'] })],`,
    },
    {
      caption: 'One queue, and nothing to gather.',
      code: `parallel: ddp(),\nlaunch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export CUDA_DEVICE_MAX_CONNECTIONS=1'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'Left over from looking for a fault.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export CUDA_LAUNCH_BLOCKING=1'] })],`,
    },
    {
      caption: 'From a script for tensor parallelism.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export CUDA_DEVICE_MAX_CONNECTIONS=1'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      for (const { name, value } of assignments(text)) {
        const brake = BRAKES.find((candidate) => candidate.name === name && candidate.value.test(value))
        if (brake === undefined || brake.applies?.(plan) === false) continue
        report({
          message: 'brake',
          at: ['launch'],
          path,
          data: { name, value, effect: brake.effect },
          fixes: [withoutLine(path)],
        })
      }
    }
  },
})
