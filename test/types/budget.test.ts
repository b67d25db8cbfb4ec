/** What the types of one pipeline cost the compiler. Counted, not timed: type instantiations are the same on every machine. */
import path from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

import { pipelineOf } from './modules.ts'
import { root } from './project.ts'

const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as {
  config: unknown
}
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)

/** Type instantiations of a check of the pipeline and of what it uses of the SDK. */
function instantiations(count: number): number {
  const file = path.join(root, 'test/types/budget.generated.ts')
  const host = ts.createCompilerHost(options)
  const disk = { ...host }
  host.fileExists = (name) => name === file || disk.fileExists(name)
  host.readFile = (name) => (name === file ? pipelineOf(count) : disk.readFile(name))
  host.getSourceFile = (name, target, ...rest) =>
    name === file
      ? ts.createSourceFile(name, pipelineOf(count), target)
      : cached(name, () => disk.getSourceFile(name, target, ...rest))
  const program = ts.createProgram([file], options, host)
  const errors = program.getSemanticDiagnostics(program.getSourceFile(file))
  expect(errors.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([])
  // What `tsc --extendedDiagnostics` prints as Instantiations.
  return (program as unknown as { getInstantiationCount(): number }).getInstantiationCount()
}

const sources = new Map<string, ts.SourceFile | undefined>()
function cached(name: string, read: () => ts.SourceFile | undefined): ts.SourceFile | undefined {
  if (!sources.has(name)) sources.set(name, read())
  return sources.get(name)
}

test('thirty modules stay within their budget, and each costs the same', { timeout: 120_000 }, () => {
  const [none, thirty, sixty] = [0, 30, 60].map(instantiations) as [number, number, number]
  expect(thirty - none).toBeLessThan(30 * 600)
  expect(sixty - thirty).toBeLessThan(1.1 * (thirty - none))
})
