#!/usr/bin/env node
/** The program `vla`. The only file that touches the process. */
import process from 'node:process'
import type { StopSignal } from '../python/host.ts'
import { run } from './run.ts'

const { env, stdin, stdout, stderr } = process
const inCi = env['CI'] !== undefined && env['CI'] !== '' && env['CI'] !== 'false'
const forced = env['FORCE_COLOR'] !== undefined && env['FORCE_COLOR'] !== '0'
const plain =
  (env['NO_COLOR'] !== undefined && env['NO_COLOR'] !== '') || env['FORCE_COLOR'] === '0' || env['TERM'] === 'dumb'

// A reader that has seen enough (`vla rules | head`) is no failure.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
})

process.exitCode = await run(process.argv.slice(2), {
  cwd: process.cwd(),
  env,
  stdout,
  stderr: {
    write: (text) => stderr.write(text),
    isTTY: stderr.isTTY,
    get columns() {
      return stderr.columns || 120
    },
  },
  color: forced || (stderr.isTTY && !plain),
  interactive: stdin.isTTY && stderr.isTTY && !inCi,
  onSignal(listener) {
    const signals: StopSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP']
    for (const signal of signals) process.on(signal, listener)
    return () => {
      for (const signal of signals) process.off(signal, listener)
    }
  },
})
