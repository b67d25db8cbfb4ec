/** A tsserver process and its protocol: requests as lines of JSON, answers and events with a header. */
import { spawn, type ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'

interface Location {
  readonly line: number
  readonly offset: number
}

/** A diagnostic as tsserver sends it. */
export interface Shown {
  readonly start: Location
  readonly end: Location
  readonly text: string
  readonly code: number
  readonly category: string
  readonly source?: string
  readonly relatedInformation?: readonly { readonly message: string; readonly span?: { readonly start: Location } }[]
}

export interface CodeFix {
  readonly fixName: string
  readonly description: string
  readonly changes: readonly {
    readonly fileName: string
    readonly textChanges: readonly { readonly start: Location; readonly end: Location; readonly newText: string }[]
  }[]
}

interface Message {
  readonly type: 'event' | 'response'
  readonly event?: string
  readonly request_seq?: number
  readonly success?: boolean
  readonly message?: string
  readonly body?: unknown
}

export class TsServer {
  readonly #process: ChildProcess
  readonly #messages: Message[] = []
  readonly #waiting = new Set<() => void>()
  #sequence = 0
  #input = Buffer.alloc(0)

  constructor(cwd: string) {
    const server = createRequire(import.meta.url).resolve('typescript/lib/tsserver.js')
    const flags = ['--allowLocalPluginLoads', '--disableAutomaticTypingAcquisition']
    this.#process = spawn(process.execPath, [server, ...flags], { cwd, stdio: ['pipe', 'pipe', 'inherit'] })
    this.#process.stdout?.on('data', (part: Buffer) => {
      this.#input = Buffer.concat([this.#input, part])
      this.#take()
    })
  }

  #take(): void {
    for (;;) {
      const header = /^Content-Length: (\d+)\r\n\r\n/.exec(this.#input.toString('latin1', 0, 64))
      const start = header?.[0].length ?? 0
      const end = start + Number(header?.[1] ?? 0)
      if (header === null || this.#input.length < end) return
      this.#messages.push(JSON.parse(this.#input.toString('utf8', start, end)) as Message)
      this.#input = this.#input.subarray(end)
      for (const look of this.#waiting) look()
    }
  }

  /** The first message from `since` on that is looked for. Tests end by their own time limit where it never comes. */
  async #message(since: number, wanted: (message: Message) => boolean): Promise<Message> {
    return new Promise((found) => {
      const look = (): void => {
        const message = this.#messages.slice(since).find(wanted)
        if (message === undefined) return
        this.#waiting.delete(look)
        found(message)
      }
      this.#waiting.add(look)
      look()
    })
  }

  #send(command: string, args: unknown): number {
    const seq = ++this.#sequence
    this.#process.stdin?.write(`${JSON.stringify({ seq, type: 'request', command, arguments: args })}\n`)
    return seq
  }

  /** What a request is answered with. */
  async ask(command: string, args: unknown): Promise<unknown> {
    const seq = this.#send(command, args)
    const answer = await this.#message(0, ({ type, request_seq }) => type === 'response' && request_seq === seq)
    if (answer.success !== true) throw new Error(`${command}: ${answer.message ?? ''}`)
    return answer.body
  }

  /** Tells tsserver something that it does not answer. */
  tell(command: string, args: unknown): void {
    this.#send(command, args)
  }

  /** Semantic diagnostics of a file as they are at this moment. */
  async now(file: string): Promise<Shown[]> {
    return (await this.ask('semanticDiagnosticsSync', { file })) as Shown[]
  }

  /** The first diagnostics of a file that tsserver shows of its own accord, or that it shows already, and that are wanted. */
  async shown(
    file: string,
    wanted: (diagnostics: readonly Shown[]) => boolean,
    event = 'semanticDiag',
  ): Promise<Shown[]> {
    const since = this.#messages.length
    this.tell('geterr', { files: [file], delay: 0 })
    const isWanted = ({ event: name, body }: Message): boolean => {
      const { file: of, diagnostics } = (body ?? {}) as { file?: string; diagnostics?: Shown[] }
      return name === event && of === file && wanted(diagnostics ?? [])
    }
    const { body } = await this.#message(since, isWanted)
    return (body as { diagnostics: Shown[] }).diagnostics
  }

  /** Ends the process. */
  async close(): Promise<void> {
    const ended = new Promise((end) => this.#process.once('close', end))
    this.tell('exit', {})
    await ended
  }
}
