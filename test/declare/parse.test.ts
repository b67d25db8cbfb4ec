import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { declareRules } from '../../sdk/declare/findings.ts'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import * as vla from '../../sdk/index.ts'
import { smallest } from './fixtures.ts'

/** Findings as `id path@key: message / fix`. */
function said(value: unknown): string[] {
  return parseDeclaration(value).findings.map(
    ({ id, path, at, message, fix }) => `${id} ${path.join('.')}${at === 'key' ? '@key' : ''}: ${message} ${fix}`,
  )
}

/** The only finding. */
function only(value: unknown) {
  const { findings } = parseDeclaration(value)
  expect(findings).toHaveLength(1)
  return findings[0]
}

describe('what is well-formed', () => {
  test('comes back as it is, without the mark and without undefined', () => {
    const parsed = parseDeclaration(vla.defineVLAPipeline({ ...smallest, loader: { workers: 2 } }))
    expect(parsed).toEqual({ declaration: { ...smallest, loader: { workers: 2 } }, findings: [], broken: [] })
    expect(said({ ...smallest, checkpoint: undefined, cameras: { front: undefined } })).toEqual([])
  })

  test('is not changed', () => {
    const declared = Object.freeze({ ...smallest, modules: Object.freeze({ vison: Object.freeze({ lr: 'x' }) }) })
    parseDeclaration(declared)
    expect(declared.modules).toEqual({ vison: { lr: 'x' } })
  })

  test('every noun of the vocabulary', () => {
    const { action, ...model } = smallest.model
    expect(
      said({
        ...smallest,
        model: {
          ...model,
          vision: vla.fused(
            [vla.timmVision('a', { options: { depth: [1, { a: null }] } }), vla.transformersVision('b')],
            {
              on: 'sequence',
            },
          ),
          projector: vla.mlp({ layers: 2 }),
          language: vla.causalLM('Qwen/Qwen2.5-0.5B', { revision: 'abc' }),
          action: vla.flowMatching({ layers: 1, hidden: 8, chunk: 4, attention: 'cross' }),
          state: true,
          mask: 'prefix',
          prompt: '{instruction}',
          promptTokens: 3,
          weights: 'w',
        },
        data: [
          {
            from: vla.lerobotDataset({
              repo: 'a/b',
              revision: 'c',
              episodes: [0, 1],
              holdout: '5%',
              name: 'n',
              state: 's',
              action: 'a',
            }),
            weight: 0.5,
            cameras: { front: 'x' },
          },
        ],
        cameras: { wrist: 'y' },
        normalize: { state: 'identity', action: 'quantiles', constant: 'zero', actionMask: [true], clip: false },
        augment: vla.imageAugmentation({ crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 }),
        loader: { workers: 0 },
        hardware: vla.gpus('T4', { perNode: 2, nodes: 2, hostMemory: vla.gib(12.3), network: 'ib-400' }),
        modules: {
          vision: {
            freeze: vla.until('75%', { thenTrain: vla.lastLayers(6), rewarm: 10 }),
            recompute: 'full',
            storage: 'bf16',
          },
          projector: { freeze: 'always', weightDecay: 0 },
          language: { lr: 0, adapt: vla.lora({ rank: 8, alpha: 4, dropout: 0.1, targets: ['q_proj'] }), dtype: 'fp32' },
          action: {
            freeze: [vla.phase({ from: 0, train: 'none' }), vla.phase({ from: '5%', train: 'all', rewarm: '1%' })],
          },
        },
        parallel: vla.fsdp2({ shard: 'gradOp' }),
        training: {
          ...smallest.training,
          lr: 1e-3,
          weightDecay: 0.1,
          optimizer: vla.adamw({ betas: [0.9, 0.95], eps: 1e-6, decayBiasAndNorm: true }),
          schedule: vla.linearDecay({ warmup: '3%', floor: 0.1 }),
          clip: 'none',
          seed: 1,
          skipNonFinite: 0,
          validateEvery: 5,
        },
        checkpoint: { every: '10%', keep: 1 },
        track: [vla.tensorboard(), vla.jsonl(), vla.wandb({ project: 'p', entity: 'e' })],
        evaluate: vla.simulation({
          env: 'metaworld',
          tasks: ['reach-v3'],
          episodes: 5,
          maxSteps: 10,
          imageSize: 64,
          firstSeed: 0,
          actionSteps: 2,
        }),
        export: [vla.hf({ dtype: 'bf16' }), vla.lerobot()],
        launch: [
          vla.torchrun(),
          vla.slurm({
            partition: 'gpu',
            time: '2-00:00:00',
            account: 'a',
            requeue: false,
            setup: ['module load cuda'],
          }),
        ],
        rules: { VLA203: vla.off('measured') },
      }),
    ).toEqual([])
    expect(said({ ...smallest, model: { ...model, projector: vla.fusedMlp(), action } })).toEqual([])
    expect(said({ ...smallest, model: vla.openvla({ weights: 'w' }), parallel: vla.ddp() })).toEqual([])
    const { training } = smallest
    const schedules = [vla.cosine(), vla.constant({ warmup: 5 }), vla.cosine({ warmup: '3%', floor: 0 })]
    for (const schedule of schedules) expect(said({ ...smallest, training: { ...training, schedule } })).toEqual([])
  })
})

describe('VLA001, VLA006: names that the model defines', () => {
  test('a misspelled module points at its key and can be renamed', () => {
    const finding = only({ ...smallest, modules: { vison: { lr: 1 } } })
    expect(finding).toMatchObject({
      id: 'VLA001',
      path: ['modules', 'vison'],
      at: 'key',
      fix: "Did you mean 'vision'?",
    })
    expect(finding?.fixes).toEqual([
      {
        label: "Rename 'vison' to 'vision'",
        kind: 'safe',
        edits: [{ kind: 'renameKey', path: ['modules', 'vison'], to: 'vision' }],
      },
    ])
  })

  test('a name that is taken is not suggested', () => {
    expect(said({ ...smallest, modules: { vison: {}, vision: {} } })).toEqual([
      "VLA001 modules.vison@key: This model has no module 'vison'; it has 'vision', 'projector', 'language', 'action'. " +
        "Use one of 'vision', 'projector', 'language', 'action'.",
    ])
  })

  test('a decoder of tokens has no action module', () => {
    expect(said({ ...smallest, model: vla.openvla({ weights: 'w' }), modules: { action: {} } })).toEqual([
      "VLA001 modules.action@key: This model has no module 'action'; it has 'vision', 'projector', 'language'. " +
        "Use one of 'vision', 'projector', 'language'.",
    ])
    const action = vla.regression({ chunk: 8 })
    expect(said({ ...smallest, model: vla.openvla({ weights: 'w', action }), modules: { action: {} } })).toEqual([])
  })

  test('cameras, of the pipeline and of a list of datasets', () => {
    const data = [{ from: vla.lerobotDataset({ root: 'a' }), weight: 1, cameras: { wrst: 'x' } }]
    expect(said({ ...smallest, cameras: { primary: 'x' }, data })).toEqual([
      "VLA006 cameras.primary@key: This model has no camera 'primary'; it has 'front', 'wrist'. Use one of 'front', 'wrist'.",
      "VLA006 data.0.cameras.wrst@key: This model has no camera 'wrst'; it has 'front', 'wrist'. Did you mean 'wrist'?",
    ])
  })

  test('are checked in a declaration whose required parts are broken', () => {
    const { training: _, ...rest } = smallest
    const parsed = parseDeclaration({ ...rest, modules: { vison: {} }, cameras: { frnt: 'x' } })
    expect(parsed.declaration).toBeUndefined()
    expect(parsed.findings.map(({ id }) => id)).toEqual(['VLA004', 'VLA001', 'VLA006'])
  })
})

describe('VLA002: unknown options', () => {
  test('a misspelled option can be renamed, and what it would have been is not missing', () => {
    const { globalBatch, ...training } = smallest.training
    const finding = only({ ...smallest, training: { ...training, globalBach: globalBatch } })
    expect(finding).toMatchObject({
      id: 'VLA002',
      path: ['training', 'globalBach'],
      at: 'key',
      fix: "Did you mean 'globalBatch'?",
    })
    expect(finding?.fixes[0]).toMatchObject({ kind: 'safe', edits: [{ kind: 'renameKey', to: 'globalBatch' }] })
  })

  test('inside unions and lists', () => {
    const freeze = { ...vla.until('5%'), rewarn: 5 }
    expect(said({ ...smallest, modules: { vision: { freeze } }, launch: [{ ...vla.torchrun(), nodes: 2 }] })).toEqual([
      "VLA002 modules.vision.freeze.rewarn@key: modules.vision.freeze has no option 'rewarn'. Did you mean 'rewarm'?",
      "VLA002 launch.0.nodes@key: launch[0] has no option 'nodes'. Remove it.",
    ])
  })

  test('an option of another noun is listed with what there is', () => {
    expect(said({ ...smallest, checkpoint: { every: 5, dir: 'x' } })).toEqual([
      "VLA002 checkpoint.dir@key: checkpoint has no option 'dir'. Remove it, or use one of 'keep'.",
    ])
  })

  test('an option of the other attention', () => {
    const cross = { ...vla.flowMatching({ layers: 1, hidden: 8, chunk: 4 }), mlp: 16 }
    const joint = { ...vla.flowMatching({ attention: 'joint', hidden: 8, chunk: 4 }), mpl: 16 }
    expect(said({ ...smallest, model: { ...smallest.model, action: cross } })).toEqual([
      "VLA002 model.action.mlp@key: model.action has no option 'mlp'. Remove it, or use one of 'attention', 'heads', 'steps'.",
    ])
    expect(said({ ...smallest, model: { ...smallest.model, action: joint } })).toEqual([
      "VLA002 model.action.mpl@key: model.action has no option 'mpl'. Did you mean 'mlp'?",
    ])
  })

  test('a key that JavaScript treats specially', () => {
    expect(said(JSON.parse(JSON.stringify({ ...smallest }).replace('{', '{"__proto__":{"a":1},')))).toEqual([
      expect.stringContaining("VLA002 __proto__@key: A pipeline has no option '__proto__'."),
    ])
  })
})

describe('VLA003: wrong values', () => {
  const cases: [string, object, string][] = [
    [
      'a text for a number',
      { training: { ...smallest.training, lr: 'fast' } },
      "training.lr is 'fast'. Expected a number.",
    ],
    [
      'a fraction of an update',
      { training: { ...smallest.training, updates: 1.5 } },
      'training.updates is 1.5. Expected a whole number.',
    ],
    [
      'zero updates',
      { training: { ...smallest.training, updates: 0 } },
      'training.updates is 0. Expected more than 0.',
    ],
    [
      'not a number',
      { training: { ...smallest.training, lr: Number.NaN } },
      'training.lr is NaN. Write a finite number.',
    ],
    [
      'a share beyond the whole',
      { checkpoint: { every: '150%' } },
      "checkpoint.every is '150%'. Expected a number of updates (1_000) or a share of the run ('75%').",
    ],
    ['no time at all', { checkpoint: { every: '0%' } }, "checkpoint.every is '0%'. Expected more than zero updates."],
    [
      'a misspelled dtype',
      { modules: { vision: { dtype: 'bf61' } } },
      "modules.vision.dtype is 'bf61'. Did you mean 'bf16'?",
    ],
    [
      'a dtype of the future',
      { modules: { vision: { dtype: 'fp8' } } },
      "modules.vision.dtype is 'fp8'. Expected 'fp64' or 'fp32' or 'bf16'.",
    ],
    [
      'a freeze that is none',
      { modules: { vision: { freeze: 'sometimes' } } },
      "modules.vision.freeze is 'sometimes'. Expected 'never', 'always', until(...) or a list of phase(...).",
    ],
    [
      'no phases',
      { modules: { vision: { freeze: [] } } },
      'modules.vision.freeze is an empty list. Expected a list that is not empty.',
    ],
    ['another constructor', { parallel: vla.hf() }, 'parallel is hf(...). Expected fsdp2(...) or ddp(...).'],
    ['no constructor', { track: ['wandb'] }, "track[0] is 'wandb'. Expected an object."],
    ['one where a list belongs', { export: vla.hf() }, 'export is hf(...). Expected a list.'],
    [
      'a function',
      { name: () => 'x' },
      'name is the function name, which is not plain data. A declaration holds texts, numbers, booleans, lists and objects.',
    ],
    [
      'a date',
      { loader: new Date(0) },
      'loader is an object, which is not plain data. A declaration holds texts, numbers, booleans, lists and objects.',
    ],
    [
      'a blank in an #SBATCH line',
      { launch: [vla.slurm({ partition: 'a b', time: '1:00' })] },
      "launch[0].partition is 'a b'. Expected one word without blanks or quotes.",
    ],
    [
      'an attention that is none',
      {
        model: {
          ...smallest.model,
          action: { ...vla.flowMatching({ layers: 1, hidden: 8, chunk: 4 }), attention: 'jont' },
        },
      },
      "model.action.attention is 'jont'. Did you mean 'joint'?",
    ],
    [
      'widths of a joint expert',
      { model: { ...smallest.model, action: vla.flowMatching({ attention: 'joint', hidden: 0, chunk: 4 }) } },
      'model.action.hidden is 0. Expected more than 0.',
    ],
    ['no list of datasets', { data: [] }, 'data is an empty list. Expected a list that is not empty.'],
  ]
  test.each(cases)('%s', (_, change, message) => {
    expect(said({ ...smallest, ...change }).map((line) => line.replace(/^VLA003 [^:]*: /, ''))).toEqual([message])
  })

  test('a key of `rules` that is no id', () => {
    expect(said({ ...smallest, rules: { VLA1: vla.off('x') } })).toEqual([
      "VLA003 rules.VLA1@key: 'VLA1' is not a rule's id. Write the id of a rule, such as 'VLA101'.",
    ])
  })

  test('a cycle', () => {
    const config: Record<string, unknown> = { model_type: 'llama' }
    config['self'] = config
    expect(said({ ...smallest, model: { ...smallest.model, language: { kind: 'causalLM', config } } })).toEqual([
      'VLA003 model.language.config.self: model.language.config.self is part of itself. A declaration is plain data, without cycles.',
    ])
  })

  test.each([undefined, null, 3, 'x', [], () => smallest])('%s is no pipeline', (value) => {
    const parsed = parseDeclaration(value)
    expect(parsed.declaration).toBeUndefined()
    expect(parsed.findings).toHaveLength(1)
    expect(parsed.findings[0]).toMatchObject({
      id: 'VLA003',
      path: [],
      fix: 'Export default defineVLAPipeline({ ... }).',
    })
  })
})

describe('VLA004: missing options', () => {
  test('are said all at once, and nothing is guessed', () => {
    expect(said({ name: 'x' })).toEqual([
      "VLA004 model: The pipeline has no 'model'. Add 'model'.",
      "VLA004 data: The pipeline has no 'data'. Add 'data'.",
      "VLA004 hardware: The pipeline has no 'hardware'. Add 'hardware'.",
      "VLA004 training: The pipeline has no 'training'. Add 'training'.",
    ])
  })

  test('a dataset without a place', () => {
    const data = [{ from: vla.lerobotDataset({}), weight: 1 }]
    const how = "Add 'root' for a local directory, or 'repo' for one on the hub."
    expect(said({ ...smallest, data: vla.lerobotDataset({ name: 'x' }) })).toEqual([
      `VLA004 data: data has neither 'repo' nor 'root'. ${how}`,
    ])
    expect(said({ ...smallest, data })).toEqual([
      `VLA004 data.0.from: data[0].from has neither 'repo' nor 'root'. ${how}`,
    ])
  })
})

describe("a LeRobot policy's type and configuration", () => {
  const policy = (model: object) => ({
    ...smallest,
    model,
    modules: undefined,
    cameras: { front: 'observation.image' },
  })
  const act = (config: object, more: object = {}) => policy({ kind: 'act', cameras: ['front'], config, ...more })

  test.each([
    ['dim_modle', { dim_modle: 256 }, "Did you mean 'dim_model'?"],
    ['hidden_size', { hidden_size: 256 }, 'Remove it: LeRobot refuses to read it.'],
  ])('%s is no field', (field, config, fix) => {
    const finding = only(act(config))
    expect(finding).toMatchObject({ id: 'VLA002', path: ['model', 'config', field], at: 'key', fix })
    expect(finding?.message).toBe(`The configuration of act in LeRobot 0.6.1 has no field '${field}'.`)
    // It is not built on, so that nothing else is said of it.
    expect(parseDeclaration(act(config)).declaration?.model).toMatchObject({ config: {} })
  })

  test.each([
    [{ optimizer_lr: 1e-4 }, "'optimizer_lr' is no field of config here: training: lr."],
    [{ device: 'cuda' }, "'device' is no field of config here: hardware."],
    [
      { normalization_mapping: {} },
      "'normalization_mapping' is no field of config here: normalize, and visual of the model.",
    ],
  ])('%j is said elsewhere', (config, message) => {
    expect(only(act(config))).toMatchObject({ id: 'VLA002', message })
  })

  test('a chunk is said once', () => {
    expect(only(act({ chunk_size: 50 }, { chunk: 10 }))).toMatchObject({
      id: 'VLA002',
      message: "'chunk_size' is what `chunk` of the model says.",
    })
    expect(said(act({ chunk_size: 50 }))).toEqual([])
  })

  test('a type that LeRobot does not have', () => {
    const named = (more: object) => policy({ kind: 'lerobotPolicy', cameras: ['front'], chunk: 5, ...more })
    const finding = only(named({ type: 'vqbt' }))
    expect(finding).toMatchObject({ id: 'VLA003', path: ['model', 'type'] })
    expect(finding?.message).toBe("LeRobot 0.6.1 has no policy 'vqbt', and no plugin that registers one is named.")
    expect(finding?.fix).toBe(
      "Did you mean 'vqbet'? A plugin's policy needs its package: plugin: 'lerobot_policy_mine'.",
    )
    expect(finding?.fixes).toMatchObject([{ label: "Use 'vqbet'" }])
    expect(only(named({ type: 'mine' }))?.fix).toContain('It has act, diffusion, ')
    expect(said(named({ type: 'mine', plugin: 'lerobot_policy_mine' }))).toEqual([])
    for (const plugin of ['lerobot-policy-mine', '../mine', 'a b', 'mine.'])
      expect(only(named({ type: 'mine', plugin }))).toMatchObject({ id: 'VLA003', path: ['model', 'plugin'] })
    // What the catalog does not describe has fields that nobody knows here.
    expect(said(named({ type: 'vqbet', config: { anything: 1 } }))).toEqual([])
  })
})

describe('VLA005: unknown GPU', () => {
  test('one that is meant', () => {
    const finding = only({ ...smallest, hardware: { kind: 'gpus', gpu: 'RTX4090' } })
    expect(finding).toMatchObject({
      id: 'VLA005',
      fix: "Did you mean 'RTX-4090'?",
      path: ['hardware', 'gpu'],
      at: 'value',
    })
    expect(finding?.fixes).toEqual([
      {
        label: "Use 'RTX-4090'",
        kind: 'suggestion',
        edits: [{ kind: 'set', path: ['hardware', 'gpu'], value: 'RTX-4090' }],
      },
    ])
  })

  test('several that are meant', () => {
    expect(said({ ...smallest, hardware: { kind: 'gpus', gpu: 'h100' } })).toEqual([
      "VLA005 hardware.gpu: The catalog has no GPU 'h100'. Use one of H100-SXM-80GB, H100-PCIe-80GB.",
    ])
    // A name that it is a part of is nearer than one that is a letter away (A10G).
    expect(said({ ...smallest, hardware: { kind: 'gpus', gpu: 'A100' } })).toEqual([
      "VLA005 hardware.gpu: The catalog has no GPU 'A100'. Use one of A100-SXM-80GB, A100-SXM-40GB.",
    ])
  })

  test('none', () => {
    expect(said({ ...smallest, hardware: { kind: 'gpus', gpu: 'MI300X' } })[0]).toContain('Use one of H100-SXM-80GB, ')
  })
})

describe('VLA007: text that cannot be written', () => {
  test.each([
    ['name', { name: 'a\0b' }, 'VLA007 name: name contains a NUL character. Remove a NUL character from it.'],
    [
      'a path',
      { data: vla.lerobotDataset({ root: 'a\ud800' }) },
      'VLA007 data.root: data.root contains half of a surrogate pair. Remove half of a surrogate pair from it.',
    ],
    [
      'a key',
      { cameras: { 'front\0': 'x' } },
      'VLA007 cameras.front\0@key: A key of cameras contains a NUL character. Remove a NUL character from it.',
    ],
  ])('%s', (_, change, line) => {
    expect(said({ ...smallest, ...change })).toContain(line)
  })

  test('everything else that is unicode is allowed', () => {
    expect(
      said({ ...smallest, model: { ...smallest.model, prompt: '\u{1F916} "$(rm)" \\ \u2028 \n {instruction}' } }),
    ).toEqual([])
  })
})

describe('VLA008: names that are not allowed', () => {
  test.each([
    ['Open VLA!', "Use small letters, digits and hyphens: 'open-vla'."],
    ['../x', "Use small letters, digits and hyphens: 'x'."],
    ['模型', 'Use small letters, digits and hyphens.'],
  ])('%s', (name, fix) => {
    expect(only({ ...smallest, name })).toMatchObject({ id: 'VLA008', path: ['name'], fix })
  })

  test('cameras', () => {
    expect(said({ ...smallest, model: { ...smallest.model, cameras: ['top view', 'a', 'a'] } })).toEqual([
      "VLA008 model.cameras.0: The camera name 'top view' is not allowed. Use letters, digits and underscores, beginning with a letter.",
      "VLA008 model.cameras.2: The camera 'a' is listed twice. Give each camera its own name.",
    ])
  })
})

describe('what can be read of a broken declaration', () => {
  test('broken optional parts are left out, and named', () => {
    const parsed = parseDeclaration({
      ...smallest,
      modules: { vision: { lr: 'x', weightDecay: 1 }, language: { adapt: { kind: 'lora', rank: -1 } } },
      launch: [vla.torchrun(), { kind: 'slurm' }],
      unknown: 1,
    })
    expect(parsed.declaration?.modules).toEqual({ vision: { weightDecay: 1 }, language: {} })
    expect(parsed.declaration?.launch).toBeUndefined()
    expect(parsed.broken.map((path) => path.join('.'))).toEqual(
      expect.arrayContaining(['modules.vision.lr', 'modules.language.adapt', 'launch', 'unknown']),
    )
  })

  test('nothing throws, whatever comes in', () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
        fc.constantFrom(...Object.keys(smallest), 'modules', 'launch', 'cameras', 'rules'),
        (value, key) => {
          for (const candidate of [
            value,
            { ...smallest, [key]: value },
            { ...smallest, model: { ...smallest.model, vision: value } },
          ]) {
            const { declaration, findings } = parseDeclaration(candidate)
            if (declaration === undefined) expect(findings.length).toBeGreaterThan(0)
            for (const finding of findings) expect(Object.keys(declareRules)).toContain(finding.id)
          }
        },
      ),
      { numRuns: 200 },
    )
  })
})
