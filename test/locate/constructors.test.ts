import { describe, expect, it } from 'vitest'
import type { Finding } from '../../sdk/finding/finding.ts'
import * as vla from '../../sdk/index.ts'
import { CONSTRUCTOR_OF_KIND, CONSTRUCTORS } from '../../sdk/locate/constructors.ts'
import { locate } from '../../sdk/locate/locate.ts'
import { print } from '../../sdk/locate/edits.ts'

/** One call of every constructor with every argument given: `$0`, `$1`, … stand for literals that can be told apart. */
const calls: Record<string, string> = {
  composed: 'composed({ cameras: [$0], promptTokens: $1 })',
  openvla: 'openvla({ weights: $0, revision: $1 })',
  act: 'act({ cameras: [$0], chunk: $1 })',
  diffusion: 'diffusion({ cameras: [$0], config: { horizon: $1 } })',
  smolvla: 'smolvla({ weights: $0, revision: $1 })',
  pi0: 'pi0({ weights: $0, cameras: [$1] })',
  pi05: 'pi05({ weights: $0, padding: $1 })',
  xvla: 'xvla({ weights: $0, state: $1 })',
  lerobotPolicy: 'lerobotPolicy({ type: $0, plugin: $1, modules: { whole: { parameters: [$2] } } })',
  timmVision: 'timmVision($0, { weights: $1, imageSize: $2 })',
  transformersVision: 'transformersVision($0, { revision: $1 })',
  fused: 'fused([{ name: $0 }], { on: $1 })',
  linear: 'linear()',
  mlp: 'mlp({ layers: $0 })',
  fusedMlp: 'fusedMlp()',
  spatialSoftArgmax: 'spatialSoftArgmax({ points: $0 })',
  causalLM: 'causalLM($0, { revision: $1 })',
  tokens: 'tokens({ chunk: $0, bins: $1 })',
  regression: 'regression({ chunk: $0, hidden: $1 })',
  flowMatching: 'flowMatching({ layers: $0, hidden: $1, chunk: $2 })',
  lerobotDataset: 'lerobotDataset({ root: $0, holdout: [$1] })',
  imageAugmentation: 'imageAugmentation({ crop: $0 })',
  gpus: 'gpus($0, { perNode: $1, nodes: $2 })',
  cpus: 'cpus({ processes: $0 })',
  until: 'until($0, { thenTrain: $1, rewarm: $2 })',
  phase: 'phase({ from: $0, train: $1 })',
  lastLayers: 'lastLayers($0)',
  lora: 'lora({ rank: $0, alpha: $1 })',
  fsdp2: 'fsdp2({ shard: $0 })',
  ddp: 'ddp()',
  adamw: 'adamw({ betas: [$0, $1] })',
  cosine: 'cosine({ warmup: $0, floor: $1 })',
  constant: 'constant({ warmup: $0 })',
  linearDecay: 'linearDecay({ warmup: $0 })',
  tensorboard: 'tensorboard()',
  jsonl: 'jsonl()',
  wandb: 'wandb({ project: $0, entity: $1 })',
  simulation: 'simulation({ env: $0, tasks: [$1] })',
  hf: 'hf({ dtype: $0 })',
  lerobot: 'lerobot({ dtype: $0 })',
  torchrun: 'torchrun()',
  slurm: 'slurm({ partition: $0, time: $1 })',
  off: 'off($0)',
}
const alternatives: Record<string, string> = { causalLM: 'causalLM({ config: { model_type: $0 }, tokenizer: $1 })' }

/** Constructors give an object; `gib` and the like give a plain value, whose call stands for it. */
const constructors = Object.keys(vla).filter((name) => name !== 'gib' && name !== 'defineVLAPipeline')

function leaves(value: unknown, path: (string | number)[] = []): { path: (string | number)[]; value: unknown }[] {
  if (typeof value !== 'object' || value === null) return [{ path, value }]
  return Object.entries(value).flatMap(([key, child]) =>
    leaves(child, [...path, Array.isArray(value) ? Number(key) : key]),
  )
}

describe('the table of constructors', () => {
  it('has every constructor of the vocabulary', () => {
    expect(Object.keys(CONSTRUCTORS).sort()).toEqual([...constructors, 'defineVLAPipeline'].sort())
    expect(Object.keys(calls).sort()).toEqual(constructors.sort())
  })

  const cases = [...Object.entries(calls), ...Object.entries(alternatives)]
  it.each(cases)('%s: every field of what it returns is found at its argument', async (name, template) => {
    const call = template.replace(/\$(\d)/g, "'mark$1'")
    // eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call -- the call is the test's own text
    const made: unknown = new Function('vla', `with (vla) return ${call}`)(vla)
    const text = `import { ${name}, defineVLAPipeline } from 'vla-pipeline'\nexport default defineVLAPipeline({ x: ${call} })\n`
    const fields = leaves(made)
    const findings = fields.map(({ path }): Finding => ({
      id: 'VLA001',
      severity: 'error',
      message: path.join('.'),
      why: '',
      fix: '',
      path: ['x', ...path],
      at: 'value',
      related: [],
      fixes: [],
    }))
    const found = await locate(findings, {
      file: '/p/pipeline.ts',
      declaration: { x: made },
      root: '/p',
      read: (p) => (p === '/p/pipeline.ts' ? text : undefined),
    })
    const texts = found.map((d) => ({
      path: d.message,
      exact: d.exact,
      text: text.split('\n')[1]?.slice(d.column - 1, d.endColumn - 1),
    }))
    const expected = fields.map(({ path, value }) => ({
      path: path.join('.'),
      exact: true,
      // The name of the constructor says the kind.
      text: path.at(-1) === 'kind' ? name : `'${String(value)}'`,
    }))
    const byPath = (a: { path: string }, b: { path: string }): number => a.path.localeCompare(b.path)
    expect(texts.sort(byPath)).toEqual(expected.sort(byPath))
    // Printing what it returned gives the call again.
    const kind = (made as { kind?: string }).kind ?? ''
    expect(Object.hasOwn(CONSTRUCTORS, CONSTRUCTOR_OF_KIND[kind] ?? kind)).toBe(true)
    expect(print(made)).toEqual({ text: call, constructors: new Set([name]) })
  })
})
