/** Runs a generated project: training through torchrun with its progress, other scripts as they are. */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import { runChild } from './child.ts'
import { CannotDo } from './errors.ts'
import { readFailure } from './failure.ts'
import type { Host } from './host.ts'
import { fileSize, LineFollower, parseMetrics, ProgressBar } from './metrics.ts'
import type { UpdateLine } from './metrics.ts'

/** What starting a project needs from its plan.json. */
const projectPlan = z.object({
  pipeline: z.object({
    name: z.string(),
    parallel: z.object({ world: z.number().int().positive() }),
    hardware: z.discriminatedUnion('kind', [
      z.object({ kind: z.literal('gpus'), nodes: z.number().int().positive() }),
      z.object({ kind: z.literal('cpus') }),
    ]),
    training: z.object({ updates: z.number().int().positive(), globalBatch: z.number().int().positive() }),
  }),
})

export interface Project {
  /** Absolute path. */
  readonly directory: string
  readonly name: string
  /** Processes of the whole run. */
  readonly world: number
  readonly nodes: number
  readonly updates: number
  /** Samples per update. */
  readonly globalBatch: number
}

/**
 * A generated project, as its plan.json describes it.
 *
 * @throws CannotDo where `directory` is not one.
 */
export async function openProject(directory: string): Promise<Project> {
  const file = join(directory, 'plan.json')
  if (!existsSync(file) || !existsSync(join(directory, 'train.py'))) {
    throw new CannotDo(
      `${directory} is not a generated project: plan.json and train.py are not both in it.`,
      'Build one first: vla build --out DIR',
    )
  }
  const parsed = projectPlan.safeParse(parseJson(await readFile(file, 'utf8')))
  if (!parsed.success) {
    throw new CannotDo(
      `${file} cannot be read as a plan: ${z.prettifyError(parsed.error)}`,
      'Build the project again: vla build --out DIR',
    )
  }
  const { name, parallel, hardware, training } = parsed.data.pipeline
  return { directory, name, world: parallel.world, nodes: hardware.kind === 'gpus' ? hardware.nodes : 1, ...training }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The runtime's own line of progress, which the bar replaces. */
const OWN_PROGRESS = /^update \d+\/\d+ {2}loss /

export interface TrainingRequest {
  readonly host: Host
  readonly project: Project
  /** Interpreter of the project's environment. */
  readonly python: string
  /** Arguments for train.py. */
  readonly args: readonly string[]
  /** Port of the rendezvous; undefined: any free one. */
  readonly port: number | undefined
  readonly color: boolean
}

export interface TrainingReport {
  /** Absolute path of the run's folder. */
  readonly run: string
  /** The last update that the run reported; undefined where it reported none, as when it was complete already. */
  readonly last: UpdateLine | undefined
}

/**
 * Trains, with a progress bar, until the run is complete.
 *
 * Each rank's output goes to a file; of a failure the terminal shows the first rank's own traceback and no other. Ctrl-C asks the
 * run to end as SIGTERM does (it stops after the update it is in), a second one kills it.
 *
 * @throws CannotDo when the run fails, with that traceback. Interrupted when a signal ended it.
 */
export async function train(request: TrainingRequest): Promise<TrainingReport> {
  const { host, project, python, port } = request
  if (project.nodes > 1) {
    throw new CannotDo(
      `${project.name} is planned for ${String(project.nodes)} nodes; this command starts processes on one.`,
      `Start it on every node with the scripts in ${join(project.directory, 'launch')}.`,
    )
  }
  if (port !== undefined && !(await isFree(port))) {
    throw new CannotDo(
      `Port ${String(port)} is in use on this machine.`,
      'Leave --port out to have a free one chosen, or name another.',
    )
  }
  const run = join(project.directory, 'runs', project.name)
  const logs = await mkdtemp(join(tmpdir(), 'vla-run-'))
  const metrics = join(run, 'metrics.jsonl')
  const follower = new LineFollower(metrics, await fileSize(metrics))
  const bar = new ProgressBar(host.terminal, project.updates, project.globalBatch, request.color)
  let rankZero: LineFollower | undefined
  const poll = async (): Promise<void> => {
    rankZero ??= await firstRankOutput(logs)
    for (const line of (await rankZero?.read()) ?? []) if (!OWN_PROGRESS.test(line)) bar.above(line)
    for (const line of await follower.read()) {
      const parsed = parseMetrics(line)
      if (parsed !== undefined) bar.show(parsed, performance.now())
    }
  }

  host.terminal.write(`${project.name}: ${String(project.world)} process${project.world === 1 ? '' : 'es'}, ${run}\n`)
  let launcher = ''
  const polling = repeatedly(poll, 250)
  const rendezvous =
    port === undefined ? ['--standalone'] : ['--master-addr', '127.0.0.1', '--master-port', String(port)]
  try {
    const result = await runChild(
      python,
      [
        ...['-m', 'torch.distributed.run', ...rendezvous, '--nproc-per-node', String(project.world)],
        ...['--log-dir', logs, '--redirects', '3', 'train.py', ...request.args],
      ],
      {
        host,
        cwd: project.directory,
        // Workers print to files; without this their last words would be lost in a buffer.
        env: { PYTHONUNBUFFERED: '1', TORCHELASTIC_ERROR_FILE: join(logs, 'error.json') },
        output: 'collect',
        onText: (text) => {
          launcher += text
        },
        translate: (signal) => (signal === 'SIGINT' ? 'SIGTERM' : signal),
      },
    )
    await polling.stop()
    bar.clear()
    if (result.startError !== null)
      throw new CannotDo(
        `${python} could not be started: ${result.startError}`,
        `Make the environment again: vla env ${project.directory}`,
      )
    if (result.exitCode !== 0) throw await failure(request, run, logs, launcher, bar.last)
    return { run, last: bar.last }
  } finally {
    await polling.stop()
    bar.clear()
    await rm(logs, { recursive: true, force: true })
  }
}

async function failure(
  request: TrainingRequest,
  run: string,
  logs: string,
  launcher: string,
  last: UpdateLine | undefined,
): Promise<CannotDo> {
  const where =
    last === undefined
      ? 'before its first update'
      : `after update ${String(last.update + 1)} of ${String(request.project.updates)}`
  const whole = existsSync(join(run, 'logs')) ? `Whole logs, one per rank: ${join(run, 'logs')}.` : ''
  const again = 'The last complete checkpoint stands; vla run continues from it.'
  if (/EADDRINUSE|address already in use/i.test(launcher)) {
    return new CannotDo(
      `The run could not start: its port is in use on this machine.`,
      'Leave --port out to have a free one chosen, or name another.',
    )
  }
  const found = await readFailure(logs, launcher)
  if (found === undefined) {
    const words = launcher.trim().split('\n').slice(-30)
    return new CannotDo(
      [`The run failed ${where}; its launcher says:`, ...words.map((line) => `  ${line}`)].join('\n'),
      whole || again,
    )
  }
  const others =
    found.others.length === 0
      ? ''
      : ` (rank${found.others.length === 1 ? '' : 's'} ${found.others.join(', ')} went down with it)`
  const head = `The run failed ${where}: rank ${String(found.rank)}${others}`
  return new CannotDo(
    [head, '', ...found.text.split('\n').map((line) => `  ${line}`), ''].join('\n'),
    [whole, last === undefined ? '' : again].filter((line) => line !== '').join('\n'),
  )
}

/** The output of rank 0, once the launcher has made it. */
async function firstRankOutput(logs: string): Promise<LineFollower | undefined> {
  const file = (await readdir(logs, { recursive: true })).find((name) => /(?:^|\/)0\/stdout\.log$/.test(name))
  return file === undefined ? undefined : new LineFollower(join(logs, file), 0)
}

/** Runs `job` every `interval` milliseconds, never twice at once; `stop` waits for it and runs it a last time. */
function repeatedly(job: () => Promise<void>, interval: number): { stop: () => Promise<void> } {
  const stopping = new AbortController()
  const loop = (async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await sleep(interval, undefined, { signal: stopping.signal }).catch(() => undefined)
      await job()
    }
    await job()
  })()
  // A failure of the job is told by `stop`; until then nobody waits for it.
  loop.catch(() => undefined)
  return {
    stop: () => {
      stopping.abort()
      return loop
    },
  }
}

async function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => {
      resolve(false)
    })
    server.listen(port, '127.0.0.1', () => {
      server.close(() => {
        resolve(true)
      })
    })
  })
}

/**
 * Runs another script of the project, its output going to the terminal as it comes.
 *
 * @throws CannotDo when it fails. Interrupted when a signal ended it.
 */
export async function runScript(
  host: Host,
  project: Project,
  python: string,
  script: string,
  args: readonly string[],
): Promise<void> {
  if (!existsSync(join(project.directory, script))) {
    throw new CannotDo(
      `${project.directory} has no ${script}.`,
      'It is written when the declaration asks for it; see vla plan.',
    )
  }
  const result = await runChild(python, [script, ...args], {
    host,
    cwd: project.directory,
    env: { PYTHONUNBUFFERED: '1' },
    output: 'show',
  })
  if (result.startError !== null)
    throw new CannotDo(
      `${python} could not be started: ${result.startError}`,
      `Make the environment again: vla env ${project.directory}`,
    )
  if (result.exitCode !== 0) {
    throw new CannotDo(
      `${script} ended with ${result.exitCode === null ? 'a signal' : `exit code ${String(result.exitCode)}`}.`,
      'What it said stands above.',
    )
  }
}
