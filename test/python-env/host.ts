import type { Host, StopSignal } from '../../sdk/python/host.ts'

/** A host whose terminal keeps what is written and whose signals are sent by the test. */
export function fakeHost(
  options: { env?: Record<string, string>; cwd?: string; isTTY?: boolean } = {},
): Host & { text: () => string; signal: (name: StopSignal) => void } {
  let written = ''
  const listeners = new Set<(signal: StopSignal) => void>()
  return {
    env: options.env ?? { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' },
    cwd: options.cwd ?? process.cwd(),
    terminal: {
      write: (text) => {
        written += text
      },
      isTTY: options.isTTY ?? false,
      columns: 120,
    },
    onSignal: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    text: () => written,
    signal: (name) => {
      for (const listener of listeners) listener(name)
    },
  }
}
