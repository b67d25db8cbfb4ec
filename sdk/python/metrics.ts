/** Follows the JSON lines that a run writes, and draws them for people. */
import { open, stat } from 'node:fs/promises'
import { styleText } from 'node:util'
import * as z from 'zod'
import type { Terminal } from './host.ts'

/** One line of `metrics.jsonl` about an update; lines about other things (validation, checkpoints) have other keys and are passed over. */
const updateLine = z.object({
  update: z.number().int().nonnegative(),
  loss: z.number().nullable(),
  lr: z.record(z.string(), z.number()).default({}),
  samples_per_second: z.number().nullable().optional(),
})

export type UpdateLine = z.infer<typeof updateLine>

/** Reads what is appended to a file, whole lines at a time. A file that shrank was cut by a resuming run and is read from its end. */
export class LineFollower {
  private offset: number
  private rest = ''
  private readonly path: string

  /** @param offset Bytes to pass over: what an earlier run has written. */
  constructor(path: string, offset: number) {
    this.path = path
    this.offset = offset
  }

  /** The lines that were completed since the last call; none while the file is not there. */
  async read(): Promise<string[]> {
    const size = await fileSize(this.path)
    if (size < this.offset) {
      this.offset = size
      this.rest = ''
    }
    if (size === this.offset) return []
    const file = await open(this.path, 'r')
    try {
      const buffer = Buffer.alloc(size - this.offset)
      const { bytesRead } = await file.read(buffer, 0, buffer.length, this.offset)
      this.offset += bytesRead
      const lines = (this.rest + buffer.toString('utf8', 0, bytesRead)).split('\n')
      this.rest = lines.pop() ?? ''
      return lines
    } finally {
      await file.close()
    }
  }
}

/** Bytes of a file; 0 where there is none. */
export async function fileSize(path: string): Promise<number> {
  try {
    return (await stat(path)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

/** The update that a line is about; undefined for other lines. Python writes NaN and Infinity, which JSON does not know. */
export function parseMetrics(line: string): UpdateLine | undefined {
  let content: unknown
  try {
    content = JSON.parse(line.replace(/(?<=[:,[]\s*)(?:NaN|-?Infinity)(?=\s*[,}\]])/g, 'null'))
  } catch {
    return undefined // a line of another kind, or one that a killed run left half-written
  }
  const parsed = updateLine.safeParse(content)
  return parsed.success ? parsed.data : undefined
}

/**
 * The progress of a run: two lines redrawn in place on a terminal, a line every few seconds elsewhere.
 *
 *     ███████████████░░░░░░░░░░░░░░░  301/600  50 %  loss 0.0421  1,240 samples/s  ETA 0:31
 *     lr  vision 1.0e-3  projector 1.0e-3  language 5.0e-4
 */
export class ProgressBar {
  last: UpdateLine | undefined
  private drawn = 0
  private nextLine = 0
  /** Seconds per sample, averaged over the last updates: single ones vary by a checkpoint or a busy disk. */
  private pace: number | undefined
  private readonly terminal: Terminal
  private readonly updates: number
  private readonly globalBatch: number
  private readonly color: boolean

  constructor(terminal: Terminal, updates: number, globalBatch: number, color: boolean) {
    this.terminal = terminal
    this.updates = updates
    this.globalBatch = globalBatch
    this.color = color
  }

  /** Takes a line of the run; `now` in milliseconds decides how often a file gets a line. */
  show(line: UpdateLine, now: number): void {
    if (line !== this.last) this.keepPace(line)
    this.last = line
    const last = line.update + 1 >= this.updates
    if (this.terminal.isTTY) {
      this.clear()
      const text = this.render(line, this.terminal.columns)
      this.terminal.write(`${text.join('\n')}\n`)
      this.drawn = text.length
    } else if (now >= this.nextLine || last) {
      this.terminal.write(`${this.renderPlain(line)}\n`)
      this.nextLine = now + 5_000
    }
  }

  /** Writes text above the bar. */
  above(text: string): void {
    this.clear()
    this.terminal.write(`${text}\n`)
    if (this.last !== undefined && this.terminal.isTTY) this.show(this.last, 0)
  }

  /** Removes the bar. */
  clear(): void {
    if (this.drawn > 0) this.terminal.write(`\u001b[${String(this.drawn)}A\u001b[0J`)
    this.drawn = 0
  }

  private keepPace({ samples_per_second: speed }: UpdateLine): void {
    if (speed === undefined || speed === null || speed <= 0) return
    this.pace = this.pace === undefined ? 1 / speed : 0.9 * this.pace + 0.1 / speed
  }

  private render(line: UpdateLine, columns: number): string[] {
    const done = Math.min(line.update + 1, this.updates)
    const width = Math.max(10, Math.min(30, columns - 60))
    const filled = Math.round((done / this.updates) * width)
    const bar = `${this.paint('green', '█'.repeat(filled))}${this.paint('dim', '░'.repeat(width - filled))}`
    const facts = this.facts(line)
      .join('  ')
      .slice(0, Math.max(0, columns - width - 3))
    return [`${bar}  ${facts}`, this.paint('dim', `lr  ${this.rates(line)}`.slice(0, columns - 1))]
  }

  private renderPlain(line: UpdateLine): string {
    return `${this.facts(line).join('  ')}  lr ${this.rates(line)}`
  }

  private facts(line: UpdateLine): string[] {
    const done = Math.min(line.update + 1, this.updates)
    const share = `${String(Math.floor((done / this.updates) * 100))} %`
    const facts = [
      `${group(done)}/${group(this.updates)}`,
      share,
      `loss ${line.loss === null ? 'not finite' : significant(line.loss)}`,
    ]
    if (this.pace !== undefined) {
      const speed = 1 / this.pace
      facts.push(`${group(speed >= 100 ? Math.round(speed) : Number(speed.toPrecision(2)))} samples/s`)
      facts.push(`ETA ${duration(((this.updates - done) * this.globalBatch) / speed)}`)
    }
    return facts
  }

  private rates(line: UpdateLine): string {
    return Object.entries(line.lr)
      .map(([module, lr]) => `${module} ${lr === 0 ? '0' : lr.toExponential(1)}`)
      .join('  ')
  }

  private paint(style: 'green' | 'dim', text: string): string {
    return this.color ? styleText(style, text, { validateStream: false }) : text
  }
}

function significant(value: number): string {
  if (value === 0) return '0'
  return Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4
    ? String(Number(value.toPrecision(4)))
    : value.toExponential(2)
}

function group(value: number): string {
  return value.toLocaleString('en-US')
}

/** Seconds as `0:42`, `12:05` or `3:20:11`. */
function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  const [first, ...others] = parts[0] === 0 ? parts.slice(1) : parts
  return [String(first), ...others.map((part) => String(part).padStart(2, '0'))].join(':')
}
