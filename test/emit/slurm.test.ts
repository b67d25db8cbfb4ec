import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { emit } from '../../sdk/emit/emit.ts'
import { context, text } from './context.ts'
import { planOf, plans } from './plans.ts'

/** Slurm's programs as scripts that write down how they were called. `srun` runs until somebody asks the step to stop. */
const programs = {
  srun: 'trap "exit 143" TERM\necho "$$" > srun.pid\n[[ -n "${SRUN_STATUS:-}" ]] && exit "$SRUN_STATUS"\nwhile true; do sleep 0.05; done',
  scancel: 'kill -TERM "$(cat srun.pid)"',
  squeue: 'echo "${JOB_STATE:-RUNNING}"',
  scontrol: '[[ $1 == show ]] && printf "node1\\nnode2\\n" || true',
}

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'vla-slurm-'))
  await mkdir(path.join(folder, 'bin'))
  for (const [name, body] of Object.entries(programs)) {
    await writeFile(
      path.join(folder, 'bin', name),
      `#!/usr/bin/env bash\nprintf '%s\\n' "${name} $*" >> calls\n${body}\n`,
      { mode: 0o755 },
    )
  }
  await writeFile(path.join(folder, 'train.py'), '')
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

async function submit(
  pipeline: 'openvla' | 'lora',
  options: { signal?: NodeJS.Signals; env?: Record<string, string> } = {},
): Promise<{ status: number | null; calls: string[]; stderr: string }> {
  const script = text(emit(planOf(plans[pipeline]()), context), 'launch/slurm.sbatch').replace(
    'module load cuda/12.8',
    'export FROM_SETUP=1',
  )
  await writeFile(path.join(folder, 'script'), script)
  const child = spawn('bash', ['script', '--allow-change', 'a b'], {
    cwd: folder,
    env: {
      ...process.env,
      PATH: `${path.join(folder, 'bin')}:${process.env['PATH'] ?? ''}`,
      SLURM_SUBMIT_DIR: folder,
      SLURM_JOB_ID: '4711',
      SLURM_JOB_NODELIST: 'node[1-2]',
      SLURM_CPUS_ON_NODE: '64',
      ...options.env,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  if (options.signal !== undefined) {
    while (!existsSync(path.join(folder, 'srun.pid'))) await new Promise((resolve) => setTimeout(resolve, 20))
    child.kill(options.signal)
  }
  const status = await ended
  const calls = (await readFile(path.join(folder, 'calls'), 'utf8').catch(() => ''))
    .split('\n')
    .filter((line) => line !== '')
  return { status, calls, stderr }
}

describe('launch/slurm.sbatch', () => {
  test('starts torchrun once per node, with the arguments of sbatch', async () => {
    const { status, calls } = await submit('openvla', { env: { SRUN_STATUS: '0' } })
    expect(status).toBe(0)
    expect(calls).toEqual([
      'scontrol show hostnames node[1-2]',
      'srun --ntasks-per-node=1 --kill-on-bad-exit=1 python -m torch.distributed.run --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=node1:24711 --rdzv-id=4711-0 train.py --allow-change a b',
    ])
  })

  test.each(['USR1', 'TERM'] as const)(
    '%s while the job is running: stops the step and goes back into the queue',
    async (name) => {
      const { status, calls } = await submit('openvla', { signal: `SIG${name}` })
      expect(calls.slice(2)).toEqual([
        'squeue --noheader --jobs=4711 --format=%T',
        'scancel --signal=TERM 4711.0',
        'scontrol requeue 4711',
      ])
      expect(status).toBe(143)
    },
  )

  test('a job that its owner cancelled stays cancelled', async () => {
    const { calls } = await submit('openvla', { signal: 'SIGTERM', env: { JOB_STATE: 'COMPLETING' } })
    expect(calls.at(-1)).toBe('scancel --signal=TERM 4711.0')
  })

  test('a job that fails by itself is not started again', async () => {
    const { status, calls } = await submit('openvla', { env: { SRUN_STATUS: '2' } })
    expect(status).toBe(2)
    expect(calls.filter((call) => call.includes('requeue'))).toEqual([])
  })

  test('without requeue the step is stopped all the same', async () => {
    const { status, calls } = await submit('lora', { signal: 'SIGUSR1' })
    expect(status).toBe(143)
    expect(calls.at(-1)).toBe('scancel --signal=TERM 4711.0')
  })

  test('says where it has to be submitted from', async () => {
    await rm(path.join(folder, 'train.py'))
    const { status, stderr, calls } = await submit('openvla')
    expect(status).toBe(2)
    expect(stderr).toContain("submit from the project's folder")
    expect(calls).toEqual([])
  })
})
