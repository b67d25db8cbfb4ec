import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { emit } from '../../sdk/emit/emit.ts'
import type { EmittedFiles } from '../../sdk/emit/emitted.ts'
import { PlanIncomplete } from '../../sdk/emit/project.ts'
import { UnwritableValue } from '../../sdk/emit/text.ts'
import { formatPython } from '../../sdk/emit/python/format.ts'
import { checkpointBytes, cudaName } from '../../sdk/emit/python/preflight.ts'
import type { Note, Pipeline } from '../../sdk/plan/plan.ts'
import { context, emittedPython, text } from './context.ts'
import { firstOf, planOf, plans } from './plans.ts'
import { askPython, compilePython, hostile, parseBash, ruff, shellcheck } from './tools.ts'

const built = Object.fromEntries(
  Object.entries(plans).map(([name, make]) => [name, emit(planOf(make()), context)]),
) as Record<keyof typeof plans, EmittedFiles>
const names = Object.keys(plans) as (keyof typeof plans)[]

describe.each(names)('%s', (name) => {
  const files = built[name]
  const python = emittedPython(files)

  test('Python is formatted, and ruff has nothing to say', () => {
    for (const { name: file, source } of python) {
      expect(formatPython(source, file)).toBe(source)
      expect(ruff(file, source)).toEqual([])
      expect(source.split('\n').filter((line) => line.length > 120)).toEqual([])
    }
  })

  test('shell parses, and shellcheck has nothing to say', () => {
    for (const [file, { content }] of files) {
      if (!file.startsWith('launch/')) continue
      parseBash(content)
      expect(shellcheck(content) ?? '').toBe('')
    }
  })

  test('plan.json is the plan', () => {
    expect(JSON.parse(text(files, 'plan.json'))).toEqual(planOf(plans[name]()))
  })

  test('no absolute path of this machine, no time', () => {
    for (const [file, { content }] of files) {
      if (file.startsWith('vla_runtime/') || file === 'requirements.lock') continue
      expect(content).not.toContain(process.cwd())
      expect(content).not.toMatch(/\d{4}-\d\d-\d\d/)
    }
  })

  test('the same bytes again, and with reordered keys', () => {
    expect(emit(planOf(plans[name]()), context)).toEqual(files)
    const reversed = (value: unknown): unknown =>
      Array.isArray(value)
        ? value.map(reversed)
        : typeof value === 'object' && value !== null
          ? Object.fromEntries(
              Object.entries(value)
                .reverse()
                .map(([key, item]) => [key, reversed(item)]),
            )
          : value
    // The Plan's own schema puts its keys in order; free records keep the user's.
    expect([...emit(planOf(reversed(plans[name]()) as Pipeline), context).keys()]).toEqual([...files.keys()])
  })
})

test('CPython compiles every script and reads every pyproject.toml', () => {
  compilePython(Object.values(built).flatMap(emittedPython))
  const tables = askPython(
    'import json, sys, tomllib; print(json.dumps([tomllib.loads(t) for t in json.load(sys.stdin)]))',
    Object.values(built).map((files) => text(files, 'pyproject.toml')),
  ) as { project: { name: string } }[]
  expect(tables.map(({ project }) => project.name)).toEqual(names.map((name) => plans[name]().name))
})

describe('only what is asked for', () => {
  test('a bare pipeline has no dead branches', () => {
    const files = built.bare
    expect([...files.keys()].filter((file) => !file.startsWith('vla_runtime/'))).toEqual([
      '.gitattributes',
      'README.md',
      'hooks.py',
      'model.py',
      'plan.json',
      'preflight.py',
      'pyproject.toml',
      'requirements.lock',
      'train.py',
    ])
    const train = text(files, 'train.py')
    for (const word of [
      'lora',
      'Lora',
      'add_recompute',
      'holdout',
      'held_out',
      'Augmentation',
      'Frozen',
      'WeightAudit',
      'TensorBoard',
      'workers',
      'weight=',
      'episodes',
    ]) {
      expect(train).not.toContain(word)
    }
    expect(
      [...files.keys()].filter((file) => /vla_runtime\/(pack|rollout|simulation|lora|recompute)/.test(file)),
    ).toEqual([])
    expect(/dependencies = \[\n[^$]*?\n\]/.exec(text(files, 'pyproject.toml'))?.[0]).not.toMatch(
      /mujoco|metaworld|peft|tensorboard|pytest/,
    )
  })

  test('LoRA, weights, DDP', () => {
    const train = text(built.lora, 'train.py')
    expect(train).toContain('lora=Lora(rank=32, alpha=16.0, dropout=0.05, targets=["q_proj", "v_proj"])')
    expect(train).toContain('adapters = adapt(model, partition, seed=SEED)')
    expect(train).toContain('strategy="ddp"')
    expect(train).toContain('allow_missing=["action_head.*", "state_projector.*"]')
    expect(train).toContain('allow_unexpected=["language_model.lm_head.weight"]')
    expect(train).toContain('initialise(model, partition, seed=SEED, loaded=[weights])')
    expect(train).toContain('episodes=[3, 5, 8]')
    expect(train.indexOf('weights.load(model)')).toBeGreaterThan(train.indexOf('shard(model'))
    expect(train.indexOf('adapt(model')).toBeLessThan(train.indexOf('shard(model'))
    expect(text(built.lora, 'launch/slurm.sbatch')).not.toContain('scontrol requeue')
  })

  test('weights of parts', () => {
    const train = text(built.own, 'train.py')
    expect(train).toContain('WeightAudit("../../weights/siglip", None, model, part="vision_backbone.featurizer")')
    expect(train).toContain(
      'WeightAudit("facebook/dinov2-base", "abc", model, part="vision_backbone.fused_featurizer")',
    )
    expect(train).toContain('WeightAudit("../../weights/llm", None, model, part="language_model")')
    expect(train).toContain('reduce=torch.float64')
    expect(train).toContain('root="../../../arm_a"')
    expect(train).toContain('root="/data/arm_b"')
    expect(text(built.own, 'preflight.py')).toContain('check.weights(run, "../../weights/siglip")')
    expect(text(built.own, 'preflight.py')).not.toContain('check.weights(run, "facebook/dinov2-base")')
  })

  test('a joint action expert: its own widths, a unit per layer, and what of the trunk nothing reads', () => {
    const model = text(built.joint, 'model.py')
    expect(model).toMatch(
      /action=\{\s*"decoder": "flowMatching",\s*"chunk": 8,\s*"attention": "joint",\s*"hidden": 48,\s*"mlp": 192,\s*"steps": 10,/,
    )
    expect(model).not.toMatch(/"layers"|"heads"/) // they are the language model's
    expect(model.split('\n')[0]).toContain('flow matching with joint attention')
    const train = text(built.joint, 'train.py')
    expect(train).toContain('blocks=["action_head.transformer.layers.*"]')
    expect(train).toMatch(/dead=\[\s*"language_model.model.layers.1.self_attn.q_proj.\*",/)
    expect([...built.joint.keys()]).toEqual(
      expect.arrayContaining(['vla_runtime/modeling/joint.py', 'vla_runtime/modeling/expert.py']),
    )
  })

  test('phases, held-out episodes, gradOp, several nodes', () => {
    const train = text(built.openvla, 'train.py')
    expect(train).toContain('freeze=[Frozen(until=37_500), LastLayers(6, rewarm=500)],  # 75 % of 50,000 updates')
    expect(train).toContain('holdout=range(950, 1_000)')
    expect(train).toContain('strategy="gradOp"')
    expect(train).toContain('action_mask=[True, True, True, True, True, True, False]')
    expect(text(built.openvla, 'launch/slurm.sbatch')).toContain('#SBATCH --nodes=2')
    expect(text(built.openvla, 'launch/local.sh')).toContain('--rdzv-endpoint="$HEAD:${PORT:-29500}"')
    expect(text(built.openvla, 'README.md')).toContain('| VLA123 | measured on our cluster |')
  })
})

describe('reasons', () => {
  const note = (from: Note['from'], reason: string): Note => ({ path: [], from, reason })

  test('of what the compiler chose stand where it acts; what the user said is not explained', () => {
    const notes = {
      '/modules/0/lr': note('recipe', 'the published recipe'),
      '/modules/1/lr': note('declared', 'because I say so'),
      '/training/schedule/warmup': note('derived', '3 % of 600 updates'),
    }
    const files = emit(planOf(plans.small(), notes), context)
    const train = text(files, 'train.py')
    expect(train).toContain('lr=1e-3,  # the published recipe')
    expect(train).toContain('warmup=18)  # 3 % of 600 updates')
    expect(train).not.toContain('because I say so')
    expect(text(files, 'README.md')).toContain('| `modules.vision.lr` | `0.001` | recipe | the published recipe |')
    expect(text(files, 'README.md')).not.toContain('because I say so')
  })
})

describe('what cannot be emitted', () => {
  test('an unknown width names itself', () => {
    const pipeline = plans.small()
    const open = { unknown: true, because: 'vla.lock.json has no entry for metaworld' } as const
    const plan = planOf({ ...pipeline, model: { ...pipeline.model, actionDim: open } })
    expect(() => emit(plan, context)).toThrow(PlanIncomplete)
    expect(() => emit(plan, context)).toThrow('/model/actionDim: vla.lock.json has no entry for metaworld')
  })

  test.each(['a\0b', '\ud800'])('text that no file can carry: %j', (bad) => {
    const pipeline = plans.small()
    expect(() =>
      emit(planOf({ ...pipeline, model: { ...pipeline.model, prompt: `{instruction}${bad}` } }), context),
    ).toThrow(UnwritableValue)
  })
})

/** A pipeline whose every free text is the given one. */
function poisoned(word: string): Pipeline {
  const base = plans.openvla()
  const own = plans.own()
  const tower = firstOf(own.model.vision.towers.slice(1))
  return {
    ...base,
    model: {
      ...base.model,
      cameras: [word, `${word}2`],
      vision: {
        ...base.model.vision,
        towers: [
          {
            ...tower,
            name: word,
            revision: word,
            weights: word,
            options: { [word]: word, list: [word, null, true, 1.5] },
          },
        ],
      },
      language: { ...base.model.language, name: word, revision: word, config: { model_type: word, [word]: [word] } },
      prompt: `${word}{instruction}${word}`,
      weights: { source: word, revision: word, layout: 'openvla' },
    },
    datasets: [
      {
        ...firstOf(base.datasets),
        name: word,
        repo: word,
        root: word,
        revision: word,
        cameras: { [word]: word, [`${word}2`]: word },
        state: word,
        action: word,
      },
    ],
    modules: base.modules.map((module, index) => ({
      ...module,
      name: `${word}${index}`,
      parameters: [word],
      dead: [word],
      blocks: [word],
      adapt: { kind: 'lora', rank: 1, alpha: 1, dropout: 0, targets: [word] },
    })),
    hardware: { kind: 'gpus', gpu: word, perNode: 8, nodes: 2, memoryBytes: 1, hostMemoryBytes: null, network: word },
    track: [{ kind: 'wandb', project: word, entity: word }],
    evaluate: { env: 'metaworld', tasks: [word], episodes: 1, maxSteps: 1, imageSize: 1, firstSeed: 0, actionSteps: 1 },
    exports: [
      { kind: 'hf', dtype: 'bf16' },
      { kind: 'lerobot', dtype: 'bf16' },
    ],
    launch: [
      { kind: 'torchrun' },
      { kind: 'slurm', partition: clean(word), time: '1:00:00', account: clean(word), requeue: true, setup: [] },
    ],
    suppressed: [{ rule: word, reason: word }],
  }
}
/** Slurm's options cannot carry line breaks; the declaration refuses them before. */
const clean = (word: string): string => word.replace(/\p{Cc}/gu, '')

describe('hostile text through every emitter', () => {
  const words = [
    ...hostile,
    ...fc.sample(
      fc.string({ unit: 'binary' }).map((drawn) => drawn.replaceAll('\0', '')),
      8,
    ),
  ]
  const projects = words.map((word) => {
    const pipeline = poisoned(word)
    const reasons = Object.fromEntries(
      [
        '/modules/0/lr',
        '/modules/0/freeze',
        '/model/prompt',
        '/model/action',
        '/training/optimizer',
        '/normalize/action',
        '/checkpoint/every',
      ].map((pointer) => [pointer, { path: [word], from: 'recipe', reason: word } satisfies Note]),
    )
    return { word, pipeline, files: emit(planOf(pipeline, reasons), { ...context, source: `${word}.ts` }) }
  })

  test('Python compiles, ruff agrees, and the formatter has nothing to change', () => {
    compilePython(projects.flatMap(({ files }) => emittedPython(files)))
    for (const { files } of projects) {
      for (const { name, source } of emittedPython(files)) {
        expect(ruff(name, source)).toEqual([])
        expect(formatPython(source, name)).toBe(source)
      }
    }
  }, 120_000)

  test('the values that Python sees are the values of the plan', () => {
    const seen = askPython(
      `
import ast, json, sys
out = []
for source in json.load(sys.stdin):
    calls = {ast.unparse(n.func): n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)}
    config = {k.arg: k.value for k in calls["VLAConfig"].keywords}
    out.append([ast.literal_eval(config["prompt"]), ast.literal_eval(config["vision"])[0]["options"], ast.literal_eval(config["language"])["config"]])
print(json.dumps(out))
`,
      projects.map(({ files }) => text(files, 'model.py')),
    )
    expect(seen).toEqual(
      projects.map(({ pipeline: { model } }) => {
        if (model.family === 'lerobot') throw new Error('a composed model was expected')
        return [model.prompt, model.vision.towers[0]?.options, model.language.config]
      }),
    )
  })

  test('shell parses and says nothing new', () => {
    for (const { files, word } of projects) {
      if (!/[`'"$\\#\n!*~-]/.test(word)) continue // to a shell these are words like others
      parseBash(text(files, 'launch/local.sh') + text(files, 'launch/slurm.sbatch'))
      for (const file of ['launch/local.sh', 'launch/slurm.sbatch']) {
        const script = text(files, file)
        expect(script.split('\n').filter((line) => line.startsWith('#SBATCH'))).toHaveLength(
          file.endsWith('.sbatch') ? 12 : 0,
        )
        // Only comments and Slurm's option lines may hold the user's words.
        const commands = script.replace(/^#.*$/gm, '')
        if (word.trim().length > 12) expect(commands).not.toContain(word)
      }
    }
  })

  test('TOML, JSON and Markdown hold', () => {
    askPython(
      'import json, sys, tomllib; [tomllib.loads(t) for t in json.load(sys.stdin)]; print("true")',
      projects.map(({ files }) => text(files, 'pyproject.toml')),
    )
    for (const { files, pipeline } of projects) {
      expect((JSON.parse(text(files, 'plan.json')) as { pipeline: Pipeline }).pipeline).toEqual(pipeline)
      const rows = text(files, 'README.md').split('\n')
      const cells = rows
        .filter((row) => /^\| `+ ?modules/.test(row))
        .map((row) => row.replaceAll('\\|', '').split('|').length)
      expect(new Set(cells)).toEqual(new Set([6]))
    }
  })
})

describe('sizes', () => {
  test('CUDA names', () => {
    expect(
      ['H100-SXM-80GB', 'A100-SXM-40GB', 'RTX-4090', 'RTX-6000-Ada', 'L40S', 'V100-SXM2-32GB', 'V100-PCIE-16GB'].map(
        cudaName,
      ),
    ).toEqual(['H100', 'A100', 'RTX 4090', 'RTX 6000 Ada', 'L40S', 'V100', 'V100'])
  })

  test('a checkpoint holds stored parameters and two moments of what trains', () => {
    // fp32 everywhere, 1000 parameters a module, four modules: 4000 * (4 + 8)
    expect(checkpointBytes(plans.small())).toBe(48_000)
    const pipeline = plans.lora()
    // 1000 frozen in bf16, 1000 in fp32, 1000 in bf16 with adapters in fp32, 1000 in fp32
    expect(checkpointBytes(pipeline)).toBe(1000 * 2 + 1000 * 12 + 1000 * 2 + 110_828_288 * 12 + 1000 * 12)
    const open = { unknown: true, because: 'x' } as const
    expect(
      checkpointBytes({ ...pipeline, modules: pipeline.modules.map((module) => ({ ...module, count: open })) }),
    ).toBeUndefined()
  })
})
