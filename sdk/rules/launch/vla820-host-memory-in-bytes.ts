import { defineRule } from '../rule.ts'

const GIB = 2 ** 30

export const hostMemoryInBytes = defineRule({
  id: 'VLA820',
  name: 'host-memory-in-bytes',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: '`hostMemory` is in bytes: gib(512).',
  why: 'A bare number of gigabytes is read as so many bytes, and everything that is compared with it seems not to fit.',
  fix: 'Write gib(...) around the number.',
  suppress: { allowed: false, because: 'No node has less than a gigabyte: the number is in another unit.' },
  sources: [{ title: 'the vocabulary', at: 'sdk/declare/common.ts', locator: 'gib' }],
  messages: { small: 'hostMemory is {bytes} bytes, less than a gigabyte.' },
  valid: [
    {
      caption: 'With its unit.',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 2, hostMemory: gib(512) }),`,
    },
  ],
  invalid: [
    {
      caption: 'Without.',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 2, hostMemory: 512 }),`,
    },
  ],
  check({ plan, path, report }) {
    const { hardware } = plan
    if (hardware.kind !== 'gpus' || hardware.hostMemoryBytes === null || hardware.hostMemoryBytes >= GIB) return
    const bytes = hardware.hostMemoryBytes
    const at = ['hardware', 'hostMemoryBytes']
    const isMega = bytes >= 65_536 // 64 TiB in GiB is more than any node has
    const value = bytes * (isMega ? 2 ** 20 : GIB)
    report({
      message: 'small',
      at,
      data: { bytes },
      fix: isMega ? `Write ${String(value)} for ${String(bytes)} MiB.` : `Write gib(${String(bytes)}).`,
      fixes: [
        {
          label: `Set hostMemory to ${String(bytes)} ${isMega ? 'MiB' : 'GiB'}`,
          kind: 'safe',
          edits: [{ kind: 'set', path: path(at), value }],
        },
      ],
    })
  },
})
