/** Types and rules are two layers of one judgement: what the compiler refuses a rule refuses under the same id. */
import path from 'node:path'
import { expect, describe, test } from 'vitest'

import { gpuNames, gpuTable } from '../../sdk/catalog/gpus.ts'
import { florence2Large } from '../../sdk/catalog/lerobot/xvla.ts'
import { dtypes } from '../../sdk/declare/common.ts'
import { policyTypes } from '../../sdk/declare/policies.ts'
import * as vla from '../../sdk/index.ts'
import { BASE_HEAD } from '../../sdk/rules/base.ts'
import { rules } from '../../sdk/rules/index.ts'
import { judge, judgeExample, lockOf, pipelineText, type Judged } from '../rules/chain.ts'
import { errorsOf, makeProject, root } from './project.ts'

const head = `import { ${Object.keys(vla).join(', ')} } from 'vla-pipeline'\n${BASE_HEAD}`

interface Compiled {
  readonly ids: readonly string[]
  /** The same, by line of the properties. */
  readonly lines: readonly (readonly string[])[]
}

/** The ids in the compile errors of each pipeline, which is given by its properties. What has no id stands as a whole. */
function compiled(pipelines: readonly string[]): Compiled[] {
  const project = makeProject()
  const file = path.join(root, 'test/types/grid.generated.ts')
  const starts: number[] = []
  let text = head
  for (const [index, properties] of pipelines.entries()) {
    starts.push(text.split('\n').length + 2)
    text += `\nexport const p${String(index)} = defineVLAPipeline({\n${properties}\n})`
  }
  project.createSourceFile(file, text, { overwrite: true })
  const errors = errorsOf(project, file).map(({ line, text: message }) => ({
    line,
    ids: message.match(/VLA\d{3}/g) ?? [message],
  }))
  return pipelines.map((properties, index) => {
    const lines = properties
      .split('\n')
      .map((_, offset) =>
        sorted(errors.flatMap(({ line, ids }) => (line === (starts[index] ?? 0) + offset ? ids : []))),
      )
    return { ids: sorted(lines.flat()), lines }
  })
}

const sorted = (ids: readonly string[]): string[] => [...new Set(ids)].sort()

/** What reading, planning and the rules say of a pipeline. */
const judged = (properties: string): Judged =>
  judge(`${head}\nexport default defineVLAPipeline({\n${properties}\n})`, lockOf(undefined))

const ruled = (properties: string): string[] => sorted(judged(properties).findings.map(({ id }) => id))

const slow = { timeout: 120_000 }

const only = (ids: readonly string[], carried: readonly string[]): string[] => ids.filter((id) => carried.includes(id))

describe('hardware x parallel x dtype x storage: the compiler and the rules say the same', () => {
  const hardware = [...gpuNames, 'cpu']
  const devices = (name: string): string => (name === 'cpu' ? 'cpus({ processes: 2 })' : `gpus('${name}')`)
  const rest = `name: 'a', data: lerobotDataset({ root: 'data/reach' }), model: openvla({ weights: 'x' }), training: { updates: 10, globalBatch: 4, microBatch: 2 }`
  const write = (name: string, module: string, parallel = 'fsdp2()'): string =>
    `${rest}, hardware: ${devices(name)}, parallel: ${parallel}, modules: { language: { ${module} } }`

  test('dtypes over the whole catalog of GPUs', slow, () => {
    const grid = hardware.flatMap((name) => dtypes.map((dtype) => ({ name, dtype })))
    const texts = grid.map(({ name, dtype }) => write(name, `dtype: '${dtype}'`))
    const byCompiler = compiled(texts).map(({ ids }) => ids)
    const carried = ['VLA101', 'VLA102']
    expect(grid.map((cell, index) => ({ ...cell, ids: byCompiler[index] }))).toEqual(
      grid.map((cell, index) => ({ ...cell, ids: only(ruled(texts[index] ?? ''), carried) })),
    )
    const expected = grid.map(({ name, dtype }) => {
      if (name === 'cpu' || dtype === 'fp32') return []
      if (dtype === 'fp64') return ['VLA102']
      return gpuTable[name as keyof typeof gpuTable].bf16 ? [] : ['VLA101']
    })
    expect(byCompiler).toEqual(expected)
  })

  test('storage under both ways to share the work', slow, () => {
    const grid = ['cpu', 'L4', 'T4'].flatMap((name) =>
      ['ddp()', 'fsdp2()'].flatMap((parallel) =>
        [undefined, ...dtypes].flatMap((dtype) => dtypes.map((storage) => ({ name, parallel, dtype, storage }))),
      ),
    )
    const texts = grid.map(({ name, parallel, dtype, storage }) =>
      write(
        name,
        `freeze: 'always', storage: '${storage}'${dtype === undefined ? '' : `, dtype: '${dtype}'`}`,
        parallel,
      ),
    )
    const byCompiler = compiled(texts)
    const cells = grid.map((cell, index) => ({ ...cell, text: texts[index] ?? '', ids: byCompiler[index]?.ids ?? [] }))
    for (const { text, ids, ...cell } of cells) {
      // Of a dtype that is refused, the compiler says no more.
      const carried = cell.name !== 'cpu' && cell.dtype === 'fp64' ? ['VLA102'] : ['VLA101', 'VLA102', 'VLA104']
      const byRules = only(ruled(text), carried)
      // An error lists all values that are refused here, each with its id: what is refused is the same, under an id that is listed.
      expect({ ...cell, refused: ids.length > 0, ids: only(ids, byRules) }).toEqual({
        ...cell,
        refused: byRules.length > 0,
        ids: byRules,
      })
    }
    expect(cells.filter(({ ids }) => ids.includes('VLA104')).length).toBeGreaterThan(5)
  })

  test.each(['V100-SXM2-32GB', 'V100-PCIE-16GB', 'T4'])('%s has no bf16', (name) => {
    expect(ruled(write(name, `dtype: 'bf16'`))).toContain('VLA101')
    expect(ruled(write(name, `dtype: 'fp32'`))).not.toContain('VLA101')
  })
})

describe('modules of every model x what needs blocks or linears', () => {
  const florence = JSON.stringify(florence2Large)
  const configs: Partial<Record<string, string>> = {
    act: `cameras: ['front'], chunk: 16`,
    diffusion: `cameras: ['front'], chunk: 16`,
    xvla: `cameras: ['front'], config: { florence_config: ${florence}, action_mode: 'auto', max_state_dim: 20, resize_imgs_with_padding: [224, 224] }`,
  }
  const models: Record<string, string> = {
    openvla: `openvla({ weights: 'x', action: regression({ chunk: 8 }) })`,
    'composed, convolutions': `composed({ cameras: ['front'], vision: timmVision('resnet18'), projector: keyPoints, language: trunk, action: regression({ chunk: 8 }) })`,
    'composed, a vision transformer': `composed({ cameras: ['front'], vision: timmVision('vit_tiny_patch16_224'), projector: linear(), language: trunk, action: flowMatching({ layers: 2, hidden: 64, chunk: 8 }) })`,
    ...Object.fromEntries(policyTypes.map((type) => [type, `${type}({ ${configs[type] ?? `cameras: ['front']`} })`])),
    named: `lerobotPolicy({ type: 'vqbet', cameras: ['front'], chunk: 5, modules: { trunk: { parameters: ['gpt.*'], blocks: ['gpt.h.*'] }, heads: { parameters: ['*'] } } })`,
  }
  const carried = ['VLA301', 'VLA306', 'VLA401']
  const byTarget = `adapt: lora({ rank: 8, targets: ['*'] })`
  const options = [
    `recompute: 'full'`,
    `freeze: until('50%', { thenTrain: lastLayers(1) })`,
    'adapt: lora({ rank: 8 })',
    byTarget,
  ]
  const write = (model: string, names: readonly string[], option = ''): string =>
    `name: 'a', data: lerobotDataset({ root: 'data/reach' }), hardware: gpus('L4'), training: { updates: 10, globalBatch: 4, microBatch: 2, lr: 1e-4 },
model: ${model},
modules: {
${names.map((name) => `${name}: { ${option} },`).join('\n')}
}`

  test('the compiler knows what the catalog knows', slow, () => {
    const grid = Object.entries(models).flatMap(([model, code]) => {
      const names = judged(write(code, [])).plan?.pipeline.modules.map(({ name }) => name) ?? []
      expect(names.length, model).toBeGreaterThan(1)
      return options.map((option) => ({ model, option, names, text: write(code, names, option) }))
    })
    const byCompiler = compiled(grid.map(({ text }) => text))
    const cells = grid.flatMap(({ model, option, names, text }, index) => {
      const { findings } = judged(text)
      return names.map((name, line) => ({
        cell: `${model}, ${name}: ${option}`,
        option,
        // The modules stand on the last lines, before the brace.
        compiler: byCompiler[index]?.lines.at(line - names.length - 1) ?? [],
        rules: only(sorted(findings.flatMap(({ id, path: at }) => (at[1] === name ? [id] : []))), carried),
      }))
    })
    // Whether targets match a layer only the catalog knows.
    const differ = cells.filter(({ option, compiler, rules: byRules }) =>
      option === byTarget ? compiler.length > 0 : String(compiler) !== String(byRules),
    )
    expect(differ).toEqual([])
    for (const id of carried)
      expect(cells.filter(({ rules: byRules }) => byRules.includes(id)).length).toBeGreaterThan(3)
  })
})

describe("the rules' own examples", () => {
  const carried = ['VLA101', 'VLA102', 'VLA104', 'VLA301', 'VLA302', 'VLA306', 'VLA401', 'VLA516', 'VLA533']
  /** What only the plan knows: names of layers, of which the compiler has no list. */
  const beyondTypes = ['VLA401 No such layers.', 'VLA401 One of two is no layer.']
  const examples = rules.flatMap((rule) =>
    rule.invalid.map((example) => ({ title: `${rule.id} ${example.caption}`, rule, example })),
  )

  test('the compiler refuses nothing that the rules allow, and everything that types can carry', slow, () => {
    const properties = examples.map(({ example }) => {
      const text = pipelineText(example.code)
      return text.slice(text.indexOf('defineVLAPipeline({') + 'defineVLAPipeline({'.length, text.lastIndexOf('})'))
    })
    const byCompiler = compiled(properties)
    const alone = examples.flatMap(({ title, example }, index) => {
      const known = judgeExample(example).findings.map(({ id }) => id)
      const strange = (byCompiler[index]?.ids ?? []).filter((id) => /^VLA\d{3}$/.test(id) && !known.includes(id))
      return strange.length === 0 ? [] : [{ title, strange }]
    })
    expect(alone).toEqual([])
    const missed = examples.filter(
      ({ title, rule }, index) =>
        carried.includes(rule.id) && !beyondTypes.includes(title) && !byCompiler[index]?.ids.includes(rule.id),
    )
    expect(missed.map(({ title }) => title)).toEqual([])
  })
})
