import path from 'node:path'
import { describe, expect, test } from 'vitest'

import { gpuNames, gpuTable } from '../../sdk/catalog/gpus.ts'
import { dtypes } from '../../sdk/declare/common.ts'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { runRules } from '../../sdk/rules/run.ts'
import { smallest } from '../declare/fixtures.ts'
import { errorsOf, makeProject, root } from './project.ts'

const cpu = 'cpus'
const hardware = [...gpuNames, cpu]
const grid = hardware.flatMap((name) => dtypes.map((dtype) => ({ name, dtype })))

/** What the rules say of a module that computes in `dtype`. */
function ruled(name: string, dtype: string): string[] {
  const declared = {
    ...smallest,
    hardware: name === cpu ? { kind: 'cpus', processes: 2 } : { kind: 'gpus', gpu: name },
    modules: { language: { dtype } },
  }
  const parsed = parseDeclaration(declared)
  const resolved = resolve(parsed.declaration, undefined, parsed)
  const reported = [...parsed.findings, ...resolved.findings]
  const findings = resolved.plan === undefined ? [] : runRules(resolved.plan, { reported })
  return [...reported, ...findings].flatMap(({ id, path }) => (path.join('.') === 'modules.language.dtype' ? [id] : []))
}

/** What the compiler says, one pipeline per line. */
function compiled(): string[][] {
  const head = `import { cpus, defineVLAPipeline, gpus, lerobotDataset, openvla } from 'vla-pipeline'
const rest = { name: 'a', data: lerobotDataset({ root: 'a' }), model: openvla({ weights: 'x' }), training: { updates: 1, globalBatch: 1, microBatch: 1 } }`
  const lines = grid.map(({ name, dtype }, index) => {
    const where = name === cpu ? 'cpus({ processes: 2 })' : `gpus('${name}')`
    return `export const p${String(index)} = defineVLAPipeline({ ...rest, hardware: ${where}, modules: { language: { dtype: '${dtype}' } } })`
  })
  const project = makeProject()
  const file = path.join(root, 'test/types/grid.generated.ts')
  project.createSourceFile(file, [head, ...lines].join('\n'), { overwrite: true })
  const errors = errorsOf(project, file)
  const offset = head.split('\n').length + 1
  return grid.map((_, index) =>
    errors.filter(({ line }) => line === index + offset).map(({ text }) => /VLA\d{3}/.exec(text)?.[0] ?? text),
  )
}

describe('GPU x dtype: the compiler and the rules say the same', () => {
  test('over the whole grid, which follows the catalog', () => {
    const byCompiler = compiled()
    const table = grid.map(({ name, dtype }, index) => ({
      name,
      dtype,
      compiler: byCompiler[index],
      rules: ruled(name, dtype),
    }))
    for (const { compiler, rules, ...cell } of table)
      expect({ ...cell, ids: compiler }).toEqual({ ...cell, ids: rules })
    const expected = grid.map(({ name, dtype }) => {
      if (name === cpu || dtype === 'fp32') return []
      if (dtype === 'fp64') return ['VLA102']
      return gpuTable[name as keyof typeof gpuTable].bf16 ? [] : ['VLA101']
    })
    expect(byCompiler).toEqual(expected)
  })

  test.each(['V100-SXM2-32GB', 'V100-PCIE-16GB', 'T4'])('%s has no bf16', (name) => {
    expect(ruled(name, 'bf16')).toEqual(['VLA101'])
    expect(ruled(name, 'fp32')).toEqual([])
  })
})
