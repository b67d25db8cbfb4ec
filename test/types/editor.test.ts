import path from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { ts, type Project } from 'ts-morph'

import { gpuNames } from '../../sdk/catalog/gpus.ts'
import { timmTable } from '../../sdk/catalog/timm.ts'
import { makeProject, root } from './project.ts'

const file = path.join(root, 'test/types/editor.generated.ts')
let project: Project
beforeAll(() => {
  project = makeProject()
})

const given: Record<string, string> = {
  model: `model: composed({ cameras: ['front', 'wrist'], vision: timmVision('test_vit'), projector: linear(), language: causalLM('a'), action: regression({ chunk: 1 }) })`,
  hardware: `hardware: gpus('V100-SXM2-32GB')`,
  data: `data: lerobotDataset({ root: 'a' })`,
}

/** A pipeline with `part` in it, and the place of `|`. */
function write(part: string): number {
  const rest = Object.entries(given).flatMap(([key, text]) => (part.startsWith(`${key}:`) ? [] : [text]))
  const text = `import { causalLM, composed, defineVLAPipeline, flowMatching, fsdp2, gpus, lerobotDataset, linear, lora, openvla, regression, timmVision, tokens, until } from 'vla-pipeline'
export default defineVLAPipeline({ name: 'a', training: { updates: 1, globalBatch: 1, microBatch: 1 },
${[...rest, part].join(',\n')} })`
  const position = text.indexOf('|')
  project.createSourceFile(file, text.replace('|', ''), { overwrite: true })
  return position
}

/** What the editor offers at `|`: properties and literals. */
function offered(part: string): string[] {
  const position = write(part)
  const completions = project.getLanguageService().compilerObject.getCompletionsAtPosition(file, position, {})
  const kinds: string[] = [ts.ScriptElementKind.memberVariableElement, ts.ScriptElementKind.string]
  return (completions?.entries ?? [])
    .filter(({ kind }) => kinds.includes(kind))
    .flatMap(({ name }) => (name === '' ? [] : [name]))
    .sort()
}

/** What the editor shows for the word behind `|`. */
function hover(part: string): string {
  const position = write(part)
  const info = project.getLanguageService().compilerObject.getQuickInfoAtPosition(file, position)
  const tags = (info?.tags ?? []).map((tag) => `@${tag.name} ${ts.displayPartsToString(tag.text)}`)
  return [ts.displayPartsToString(info?.documentation), ...tags].join('\n')
}

describe('completions', { timeout: 120_000 }, () => {
  const options = ['adapt', 'dtype', 'freeze', 'lr', 'recompute', 'storage', 'weightDecay']
  const modules = ['action', 'language', 'projector', 'vision']
  const cases: [string, string, string[]][] = [
    ['modules of the model', `modules: { | }`, modules],
    ['the modules that are not there yet', `modules: { vision: { dtype: 'fp32' }, | }`, modules.slice(0, 3)],
    ['modules beside a misspelled one', `modules: { vison: {}, | }`, modules],
    ['modules of a model that decodes tokens', `model: openvla({ weights: 'x' }), modules: { | }`, modules.slice(1)],
    ['options of a module', `modules: { vision: { | } }`, options],
    [
      'the options that are not there yet',
      `modules: { vision: { dtype: 'fp32', lr: 1, | } }`,
      options.filter((name) => name !== 'dtype' && name !== 'lr'),
    ],
    ['dtypes', `modules: { vision: { dtype: '|' } }`, ['bf16', 'fp32', 'fp64']],
    [
      'dtypes of the second module',
      `modules: { vision: { dtype: 'fp32' }, language: { dtype: '|' } }`,
      ['bf16', 'fp32', 'fp64'],
    ],
    ['recompute', `modules: { vision: { recompute: '|' } }`, ['full', 'none']],
    ['freeze', `modules: { vision: { freeze: '|' } }`, ['always', 'never']],
    ['GPUs', `hardware: gpus('|')`, [...gpuNames].sort()],
    ['cameras', `cameras: { | }`, ['front', 'wrist']],
    [
      'cameras of an entry',
      `data: [{ from: lerobotDataset({ root: 'a' }), weight: 1, cameras: { | } }]`,
      ['front', 'wrist'],
    ],
    ['cameras of a published model', `model: openvla({ weights: 'x' }), cameras: { | }`, ['primary']],
    [
      'timm towers',
      `model: composed({ cameras: ['a'], vision: timmVision('|'), projector: linear(), language: causalLM('a'), action: tokens() })`,
      Object.keys(timmTable).sort(),
    ],
    ['options of an adapter', `modules: { vision: { adapt: lora({ | }) } }`, ['alpha', 'dropout', 'rank', 'targets']],
    [
      'options of a decoder',
      `model: composed({ cameras: ['a'], action: flowMatching({ | }) })`,
      ['attention', 'chunk', 'heads', 'hidden', 'layers', 'steps'],
    ],
    [
      'options of a decoder with joint attention',
      `model: composed({ cameras: ['a'], action: flowMatching({ attention: 'joint', | }) })`,
      ['chunk', 'heads', 'hidden', 'layers', 'mlp', 'steps'],
    ],
    [
      'nouns of a pipeline',
      `|`,
      [
        'augment',
        'cameras',
        'checkpoint',
        'evaluate',
        'export',
        'launch',
        'loader',
        'modules',
        'normalize',
        'parallel',
        'rules',
        'track',
      ],
    ],
  ]
  test.each(cases)('%s', (_, part, names) => {
    expect(offered(part)).toEqual(names)
  })
})

describe('hover', { timeout: 120_000 }, () => {
  test("the seeds' names of sharding strategies", () => {
    expect(hover(`parallel: fsdp2({ |shard: 'full' })`)).toMatch(/FULL_SHARD[^]*SHARD_GRAD_OP[^]*@default 'full'/)
    expect(hover(`|parallel: fsdp2()`)).toMatch(/FULL_SHARD[^]*SHARD_GRAD_OP[^]*@default/)
    expect(hover(`parallel: |fsdp2()`)).toMatch(/FULL_SHARD[^]*SHARD_GRAD_OP/)
  })

  test('options of a module, through the checks', () => {
    expect(hover(`modules: { vision: { |dtype: 'fp32' } }`)).toMatch(/computes[^]*@default 'fp32' on cpus/)
    expect(hover(`modules: { vision: { |freeze: 'never' } }`)).toMatch(/until\('75%'[^]*@default 'never'/)
    expect(hover(`cameras: {}, |modules: {}`)).toMatch(/training\.lr/)
  })
})
