/** What the types of one pipeline cost the compiler. Counted, not timed: type instantiations are the same on every machine. */
import path from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

import { root } from './project.ts'

const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as {
  config: unknown
}
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)

/** A pipeline whose policy has `count` modules, each with every option. */
function pipeline(count: number): string {
  const names = Array.from({ length: count }, (_, index) => `part${String(index)}`)
  const patterns = names.map((name) => `${name}: { parameters: ['${name}.*'], blocks: ['${name}.layers.*'] }`)
  const declared = names.map((name, index) => {
    const freeze = index % 2 === 0 ? `until('50%', { thenTrain: lastLayers(2) })` : `[phase({ from: 0, train: 'all' })]`
    return `${name}: { lr: 1e-4, weightDecay: 0.1, dtype: 'bf16', storage: 'fp32', recompute: 'full', freeze: ${freeze}, adapt: lora({ rank: 8 }) }`
  })
  return `import { defineVLAPipeline, gpus, lastLayers, lerobot, lerobotDataset, lerobotPolicy, lora, phase, until } from 'vla-pipeline'
export default defineVLAPipeline({
  name: 'many',
  model: lerobotPolicy({ type: 'mine', cameras: ['front'], chunk: 8, modules: { rest: { parameters: ['*'] }, ${patterns.join(', ')} } }),
  data: lerobotDataset({ root: 'data' }),
  cameras: { front: 'observation.images.front' },
  hardware: gpus('L4'),
  modules: { ${declared.join(',\n')} },
  training: { updates: 10, globalBatch: 2, microBatch: 1, lr: 1e-4 },
  export: [lerobot()],
})`
}

/** Type instantiations of a check of the pipeline and of what it uses of the SDK. */
function instantiations(count: number): number {
  const file = path.join(root, 'test/types/budget.generated.ts')
  const host = ts.createCompilerHost(options)
  const disk = { ...host }
  host.fileExists = (name) => name === file || disk.fileExists(name)
  host.readFile = (name) => (name === file ? pipeline(count) : disk.readFile(name))
  host.getSourceFile = (name, target, ...rest) =>
    name === file
      ? ts.createSourceFile(name, pipeline(count), target)
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
  expect(thirty - none).toBeLessThan(30 * 2_500)
  expect(sixty - thirty).toBeLessThan(1.1 * (thirty - none))
})
