import { describe, expect, it } from 'vitest'
import type { Diagnostic } from '../../sdk/locate/diagnostic.ts'
import { githubCommands, githubError } from '../../sdk/locate/github.ts'

const diagnostic: Diagnostic = {
  id: 'VLA201',
  severity: 'error',
  message: 'A batch of 100 % cannot\nbe made: 1, 2.',
  why: 'w',
  fix: 'Use 64.',
  path: ['training', 'globalBatch'],
  at: 'value',
  file: 'pipeline.ts',
  line: 3,
  column: 34,
  endLine: 3,
  endColumn: 40,
  exact: true,
  related: [
    {
      ...{ path: ['hardware', 'gpu'], note: '2 processes', file: 'pipeline.ts' },
      ...{ line: 5, column: 18, endLine: 5, endColumn: 22, exact: true },
    },
  ],
  fixes: [],
}
const options = { fileOf: (file: string) => `robots/${file}`, nameOf: () => 'batch-not-divisible' }
const commands = (changes: Partial<Diagnostic>): string => githubCommands([{ ...diagnostic, ...changes }], options)

/** What the runner makes of a line: `ActionCommand` of actions/runner splits at the first `::` after the properties, then unescapes. */
function asTheRunnerReads(line: string): { command: string; properties: Record<string, string>; message: string } {
  const match = /^::([a-z]+) ([^]*?)::([^]*)$/.exec(line)
  if (match === null) throw new Error(`no command: ${line}`)
  const [, command = '', properties = '', message = ''] = match
  const unescaped = (text: string): string =>
    text.replace(/%(25|0D|0A|3A|2C)/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)))
  return {
    command,
    properties: Object.fromEntries(
      properties.split(',').map((pair) => {
        const [key = '', ...value] = pair.split('=')
        return [key, unescaped(value.join('='))]
      }),
    ),
    message: unescaped(message),
  }
}

describe('workflow commands', () => {
  it('have file, lines, columns, title and the escaped text', () => {
    expect(commands({})).toBe(
      '::error file=robots/pipeline.ts,line=3,endLine=3,col=34,endColumn=40,title=VLA201 batch-not-divisible::' +
        'A batch of 100 %25 cannot%0Abe made: 1, 2.%0Arobots/pipeline.ts:5 2 processes%0Afix: Use 64.\n',
    )
  })
  it.each([
    ['error', 'error'],
    ['warning', 'warning'],
    ['info', 'notice'],
  ] as const)('%s is %s', (severity, command) => {
    expect(asTheRunnerReads(commands({ severity }).trimEnd()).command).toBe(command)
  })
  it('leave columns out over several lines, which the runner refuses', () => {
    expect(asTheRunnerReads(commands({ endLine: 4 }).trimEnd()).properties).toEqual({
      file: 'robots/pipeline.ts',
      line: '3',
      endLine: '4',
      title: 'VLA201 batch-not-divisible',
    })
  })
  it('say where a place is only near', () => {
    expect(asTheRunnerReads(commands({ exact: false }).trimEnd()).message).toContain(
      '(in training.globalBatch, which is computed or not written; the nearest place is shown)',
    )
  })
  it.each([
    ['percent signs and escapes that were there before', '100 %, %0A, %25'],
    ['line ends of every kind', 'a\nb\r\nc'],
    ['what divides properties', 'a::b,c=d'],
  ])('hand on %s', (_, text) => {
    const line = githubCommands([{ ...diagnostic, message: text, file: text, related: [] }], {
      fileOf: (file) => file,
      nameOf: () => undefined,
    })
    expect(line.match(/[\r\n]/g)).toEqual(['\n'])
    const read = asTheRunnerReads(line.trimEnd())
    expect(read.properties).toEqual({
      file: text,
      line: '3',
      endLine: '3',
      col: '34',
      endColumn: '40',
      title: 'VLA201',
    })
    expect(read.message).toBe(`${text}\nfix: Use 64.`)
  })
  it('keep control characters out of the log', () => {
    expect(commands({ message: 'a\u001b[2Jb\u202e' })).toContain('a\\u001b[2Jb\\u202e')
  })
  it('are one line each, and none for nothing', () => {
    expect(githubCommands([diagnostic, diagnostic], options).split('\n')).toHaveLength(3)
    expect(githubCommands([], options)).toBe('')
  })
})

it('an error without a file is a command too', () => {
  expect(githubError('There is no pipeline.ts\nhere.')).toBe('::error title=vla::There is no pipeline.ts%0Ahere.\n')
})
