import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { format, resolveConfig } from 'prettier'
import { describe, expect, it, vi } from 'vitest'
import { registeredTypes } from '../../sdk/catalog/lerobot/registered.ts'
import type { Transforms } from '../../sdk/importer/fields.ts'
import * as tables from '../../sdk/importer/fields.ts'
import { readFlags } from '../../sdk/importer/flags.ts'
import { importLerobot, type Surroundings } from '../../sdk/importer/lerobot.ts'
import { Ledger, type Remark } from '../../sdk/importer/remarks.ts'
import { pipelineFile, Call } from '../../sdk/importer/write.ts'
import type { Fields } from '../../sdk/catalog/lerobot/fields.ts'
import { cliOutput } from '../../sdk/cli/schema.ts'
import { vla, vlaJson } from '../cli/io.ts'
import { features, info, stats, temporaryFolder, writeFile } from '../lock/fixtures.ts'

// Prettier and the TypeScript loader take their time on a machine that does other things too.
vi.setConfig({ testTimeout: 120_000 })

const folder = fileURLToPath(new URL('fixtures/', import.meta.url))
const fixtures = ['act', 'act-metaworld', 'diffusion', 'smolvla', 'pi0', 'pi05', 'xvla'] as const
const read = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Record<string, unknown>

const around: Surroundings = {
  from: 'a test',
  processes: 1,
  nodes: undefined,
  mixedPrecision: undefined,
  gpu: undefined,
  cameras: undefined,
  dataset: undefined,
  pretrained: undefined,
  relocate: (path) => path,
  relocateWeights: (path) => path,
}

/** What the flags alone give. */
function fromFlags(flags: readonly string[], more: Partial<Surroundings> = {}) {
  const ledger = new Ledger()
  return importLerobot(readFlags(flags, ledger).values, { ...around, ...more }, ledger)
}

const said = (remarks: readonly Remark[], kind: Remark['kind']): string[] =>
  remarks.filter((remark) => remark.kind === kind).map(({ field }) => field)

const base = ['--policy.type=act', '--dataset.repo_id=me/pick', '--policy.push_to_hub=false']
const camera = { cameras: { front: 'observation.images.front' } }

/** The plan that a file resolves to. */
async function planOf(here: string, file: string): Promise<Record<string, never>> {
  const { plan } = (await vlaJson(here, ['plan', file])) as { plan: { pipeline: Record<string, never> } }
  return plan.pipeline
}

describe('the tables', () => {
  const known = read('fields') as Record<string, Record<string, unknown>>
  const defaults = (table: Fields): Record<string, unknown> =>
    Object.fromEntries(Object.entries(table).map(([name, field]) => [name, field.default]))
  const parts = ['dataset', 'env', 'policy', 'reward_model', 'optimizer', 'scheduler', 'eval', 'wandb', 'peft', 'job']

  it("hold lerobot-train's fields and defaults", () => {
    const top = Object.entries(known['train'] ?? {}).filter(([name]) => ![...parts, 'sample_weighting'].includes(name))
    expect(defaults(tables.trainFields)).toEqual(Object.fromEntries(top))
    const { image_transforms: transforms, ...dataset } = known['dataset'] ?? {}
    expect({ ...defaults(tables.datasetFields), repo_id: null }).toEqual(dataset)
    expect(defaults(tables.transformFields)).toEqual(transforms as Transforms)
    expect(defaults(tables.evalFields)).toEqual(known['eval'])
    expect(defaults(tables.wandbFields)).toEqual(known['wandb'])
    expect(defaults(tables.peftFields)).toEqual(known['peft'])
    expect(defaults(tables.jobFields)).toEqual(known['job'])
    expect(defaults(tables.metaworldFields)).toEqual(known['metaworld'])
    for (const [type, fields] of Object.entries(known['optimizers'] ?? {}))
      expect(defaults(tables.optimizerFields[type as 'adam'])).toEqual(fields)
    for (const [type, fields] of Object.entries(known['schedulers'] ?? {}))
      expect(defaults(tables.schedulerFields[type as 'diffuser'])).toEqual(fields)
  })

  it('name every type', () => {
    expect(Object.keys(tables.optimizerFields).toSorted()).toEqual(known['optimizer_types'])
    expect(Object.keys(tables.schedulerFields).toSorted()).toEqual(known['scheduler_types'])
    expect([...registeredTypes].toSorted()).toEqual((known['policy_types'] as unknown as string[]).toSorted())
  })
})

describe('configurations that lerobot-train wrote', () => {
  it.each(fixtures)('%s becomes a pipeline.ts that passes check and needs no formatting', async (name) => {
    const here = temporaryFolder()
    const { code, stdout, stderr } = await vla(here, ['import', '--from-lerobot', join(folder, `${name}.json`)])
    expect(stderr).toContain('wrote  pipeline.ts')
    expect(code).toBe(0)
    const text = readFileSync(join(here, 'pipeline.ts'), 'utf8')
    const style = await resolveConfig(fileURLToPath(new URL('../../sdk/index.ts', import.meta.url)))
    expect(await format(text, { ...style, parser: 'typescript' })).toBe(text)
    // The list stands in the file and on stdout.
    expect(text).toContain('// - ')
    expect(stdout).toContain('changed')
    const check = await vla(here, ['check'])
    expect(check.stderr).not.toContain('error')
    expect(check.code).toBe(0)
  })

  it('keep what was trained with', async () => {
    const here = temporaryFolder()
    const plans: Record<string, Record<string, unknown>> = {}
    for (const name of fixtures) {
      await vla(here, ['import', '--from-lerobot', join(folder, `${name}.json`), '--out', `${name}.ts`])
      plans[name] = await planOf(here, `${name}.ts`)
    }
    const lrs = (name: string) =>
      Object.fromEntries((plans[name]?.['modules'] as { name: string; lr: number | null }[]).map((m) => [m.name, m.lr]))
    expect(lrs('act')).toEqual({ vision: 1e-5, projector: 1e-5, vae: 1e-5, encoder: 1e-5, decoder: 1e-5, heads: 1e-5 })
    expect(lrs('act-metaworld')).toMatchObject({ vision: 1e-4, encoder: 1e-3 })
    expect(lrs('smolvla')).toEqual({ vision: null, projector: null, language: null, expert: 1e-4, heads: 1e-4 })
    expect(lrs('pi0')).toMatchObject({ vision: null, language: 2.5e-5, expert: 2.5e-5 })
    expect(lrs('xvla')).toMatchObject({ vision: 1e-5, language: null, policy: 1e-4, softPrompts: 1e-6, heads: 1e-4 })
    expect(lrs('pi05')).toEqual({ vision: null, projector: null, language: null, expert: 5e-5, heads: 5e-5 })
    expect(plans['act']?.['training']).toMatchObject({
      ...{ updates: 100_000, globalBatch: 8, clip: 10, seed: 1000, schedule: { kind: 'constant', warmup: 0 } },
      optimizer: { betas: [0.9, 0.999], eps: 1e-8, decayBiasAndNorm: true },
    })
    expect(plans['diffusion']?.['training']).toMatchObject({
      ...{ updates: 200_000, globalBatch: 64, clip: 10, seed: 42 },
      ...{ schedule: { kind: 'cosine', warmup: 500, floor: 0 }, optimizer: { betas: [0.95, 0.999] } },
    })
    // int(1000 x 20000 / 30000) and int(1000 x 5000 / 30000), as LeRobot rounds
    expect(plans['smolvla']?.['training']).toMatchObject({
      ...{ clip: 10, schedule: { kind: 'cosine', warmup: 666, floor: 0.025 }, optimizer: { betas: [0.9, 0.95] } },
    })
    expect(plans['pi0']?.['training']).toMatchObject({ clip: 1, schedule: { kind: 'cosine', warmup: 166, floor: 0.1 } })
    expect(plans['act-metaworld']?.['training']).toMatchObject({ globalBatch: 64, validateEvery: 500 })
    expect(plans['act-metaworld']?.['evaluate']).toMatchObject({ tasks: ['reach-v3'], episodes: 10, actionSteps: 4 })
    expect(plans['act-metaworld']?.['augment']).toMatchObject({ brightness: 0.2, saturation: 0.5, hue: 0.05 })
    expect(plans['act-metaworld']?.['hardware']).toMatchObject({ kind: 'cpus', processes: 1 })
    expect(plans['pi05']?.['model']).toMatchObject({
      chunk: 10,
      config: { use_relative_actions: true, chunk_size: 10 },
    })
    expect(plans['diffusion']?.['model']).toMatchObject({ chunk: 16, batchNorm: 'frozen' })
    expect((plans['smolvla']?.['datasets'] as unknown[])[0]).toMatchObject({
      cameras: { camera1: 'observation.images.top', camera2: 'observation.images.wrist' },
    })
    const dtypes = (name: string) => (plans[name]?.['modules'] as { dtype: string }[]).map(({ dtype }) => dtype)
    expect(new Set(dtypes('act'))).toEqual(new Set(['fp32']))
    expect(new Set(dtypes('pi0'))).toEqual(new Set(['bf16']))
    // The vision-language model that LeRobot loads in bf16, then expert and heads.
    expect(dtypes('smolvla')).toEqual(['bf16', 'bf16', 'bf16', 'fp32', 'fp32'])
    const adapt = (plans['pi05']?.['modules'] as { name: string; adapt: unknown }[]).find((m) => m.name === 'expert')
    expect(adapt?.adapt).toMatchObject({ rank: 32, alpha: 8, targets: ['q_proj', 'v_proj'] })
  })

  it('say what LeRobot ignored and changed, with its source', () => {
    const { remarks } = importLerobot(read('pi0'), around)
    expect(said(remarks, 'ignored')).toEqual([
      'dataset.use_imagenet_stats',
      'policy.pretrained_revision',
      'policy.gradient_checkpointing',
    ])
    expect(said(remarks, 'changed')).toEqual(
      expect.arrayContaining([
        'policy.dtype',
        'action_is_pad',
        'policy.scheduler_decay_steps',
        'policy.pretrained_path',
      ]),
    )
    for (const { kind, source } of remarks) expect(source === null).toBe(kind === 'assumed')
    const longer = importLerobot(read('pi05'), around).remarks
    expect(longer.find(({ field }) => field === 'policy.scheduler_decay_steps')?.message).toContain('the last 20000')
    expect(said(longer, 'changed')).toEqual(expect.arrayContaining(['peft.lora_alpha', 'peft.target_modules']))
    expect(said(importLerobot(read('act'), { ...around, processes: 4 }).remarks, 'changed')).toContain('seed')
    expect(said(importLerobot(read('act'), around).remarks, 'changed')).not.toContain('seed')
  })
})

describe('the command line of lerobot-train', () => {
  it('gives the same as the file it writes', () => {
    const flags = [
      '--policy.type=act',
      '--policy.repo_id=me/act-aloha',
      '--dataset.repo_id=lerobot/aloha_sim_insertion_human',
    ]
    const cameras = { top: 'observation.images.top' }
    expect(fromFlags(flags, { cameras }).text).toContain("model: act({ cameras: ['top'] })")
    const file = importLerobot(read('act'), around).text ?? ''
    expect(fromFlags(flags, { cameras }).text?.split('export default')[1]).toBe(file.split('export default')[1])
  })

  it('takes values apart, whole records and the forms that LeRobot takes', () => {
    const { text, problems } = fromFlags(
      [
        ...['lerobot-train', '--policy.type', 'diffusion', '--dataset.repo_id=me/pick', '--seed=null'],
        ...['--policy.crop_shape=[84, 84]', '--policy.optimizer_lr=3e-4', '--job_name=007', '--wandb.enable=True'],
        ...['--dataset.episodes=[0,1,2]', '--policy.use_group_norm=true', '--policy.pretrained_backbone_weights=null'],
      ],
      camera,
    )
    expect(problems).toEqual([])
    expect(text).toContain("name: '007'")
    expect(text).toContain('crop_shape: [84, 84]')
    expect(text).toContain('lr: 3e-4')
    expect(text).toContain('episodes: [0, 1, 2]')
    expect(text).toContain("track: [wandb({ project: 'lerobot' })]")
    expect(text?.split('export default')[1]).not.toContain('seed:')
  })

  it.each([
    [['accelerate', 'launch', '--multi_gpu', '--num_processes=2', '$(which lerobot-train)'], { processes: 2 }],
    [
      ['torchrun', '--nproc-per-node', '4', '--nnodes=2', '-m', 'lerobot.scripts.lerobot_train'],
      { processes: 8, nodes: 2 },
    ],
    [['python', '-m', 'lerobot.scripts.lerobot_train'], {}],
    [['CUDA_VISIBLE_DEVICES=0', 'python', 'src/lerobot/scripts/train.py'], {}],
    [['accelerate', 'launch', '--mixed_precision', 'fp16', '/usr/bin/lerobot-train'], { mixedPrecision: 'fp16' }],
    // A value that looks like the program is none where no program was named.
    [['--output_dir', 'lerobot-train'], {}],
  ])('takes a whole command: %j', (before, launcher) => {
    const ledger = new Ledger()
    const read = readFlags([...before, '--policy.type=act', '--job_name', 'lerobot-train'], ledger)
    expect(ledger.problems).toEqual([])
    expect(read.values).toMatchObject({ policy: { type: expect.anything() as unknown } })
    expect(Object.keys(read.values)).toContain('job_name')
    const nothing = { processes: undefined, nodes: undefined, mixedPrecision: undefined }
    expect(read.launcher).toEqual({ ...nothing, ...launcher })
  })

  it('takes the shape of the machine and the precision from the launcher', () => {
    const launched = (more: Partial<Surroundings>, flags: readonly string[] = base) =>
      fromFlags(flags, { ...camera, ...more })
    expect(launched({ processes: 8, nodes: 2 }).text).toContain("gpus('A100-SXM-80GB', { perNode: 4, nodes: 2 })")
    expect(launched({}).text).toContain("dtype: 'fp32'")
    const bf16 = launched({ mixedPrecision: 'bf16' })
    expect(bf16.text).not.toContain('dtype')
    expect(said(launched({ mixedPrecision: 'fp16' }).remarks, 'differs')).toContain('mixed_precision')
    expect(launched({ mixedPrecision: 'fp8' }).problems).toMatchObject([{ field: 'mixed_precision' }])
    // pi0 has a dtype, which LeRobot hands to accelerate instead.
    const pi0 = ['--policy.type=pi0', '--policy.pretrained_path=lerobot/pi0_base', '--dataset.repo_id=me/pick']
    const ignored = launched({ mixedPrecision: 'bf16' }, pi0)
    expect(said(ignored.remarks, 'ignored')).toContain('mixed_precision')
    expect(ignored.text).toContain("dtype: 'fp32'")
  })

  it('does not judge what a pretrained policy says that is not at hand', () => {
    const xvla = ['--policy.type=xvla', '--policy.pretrained_path=lerobot/xvla-base', '--dataset.repo_id=me/pick']
    expect(fromFlags([...xvla, '--policy.action_mode=auto']).text).toContain(
      "xvla({ weights: 'lerobot/xvla-base', config: { action_mode: 'auto' } })",
    )
    // What is said is judged all the same, and so is all of a policy whose config.json is there.
    expect(fromFlags([...xvla, '--policy.florence_config={}']).problems).toMatchObject([
      { field: 'policy.florence_config' },
    ])
    expect(fromFlags(xvla, { pretrained: { type: 'xvla' } }).problems).toMatchObject([
      { field: 'policy.florence_config' },
    ])
  })

  it('takes the features of the dataset where those of the pretrained policy are not wanted', () => {
    const flags = [
      '--policy.type=smolvla',
      '--policy.pretrained_path=lerobot/smolvla_base',
      '--dataset.repo_id=me/pick',
    ]
    const dataset = { 'observation.images.wrist': { dtype: 'video', shape: [64, 64, 3] } }
    const without = ['--policy.input_features=null', '--policy.output_features=null']
    expect(fromFlags([...flags, ...without], { dataset }).text).toContain("cameras: ['wrist']")
    expect(fromFlags([...flags, ...without]).problems).toMatchObject([{ field: 'policy.input_features' }])
    expect(fromFlags(flags).text).toContain("camera1: 'observation.images.camera1'")
  })

  it('tells that --optimizer.* is replaced by the preset', () => {
    const { remarks, text } = fromFlags([...base, '--optimizer.type=adamw', '--optimizer.lr=1e-3'], camera)
    const found = remarks.find(({ field }) => field === 'optimizer.lr')
    expect(found).toMatchObject({ kind: 'ignored', source: 'lerobot/configs/train.py, TrainPipelineConfig.validate' })
    expect(found?.message).toContain('0.001 is replaced by 0.00001')
    expect(text?.split('export default')[1]).not.toMatch(/\blr:/)
  })

  it('takes them where the preset is off', () => {
    const own = [
      ...['--use_policy_training_preset=false', '--optimizer.type=adamw', '--optimizer.lr=1e-3', '--steps=1000'],
      ...['--optimizer.weight_decay=0', '--optimizer.grad_clip_norm=0', '--scheduler.type=constant_with_warmup'],
      '--scheduler.num_warmup_steps=100',
    ]
    const { text } = fromFlags([...base, ...own], camera)
    expect(text).toContain('lr: 1e-3')
    expect(text).toContain("clip: 'none'")
    expect(text).toContain('schedule: constant({ warmup: 100 })')
    expect(text).toContain('weightDecay: 0')
    expect(text).not.toContain('decayBiasAndNorm')
  })

  it('reads the pretrained policy, the dataset and the checkpoint where they lie', async () => {
    const here = temporaryFolder()
    const two = { dtype: 'video', shape: [64, 64, 3], names: ['height', 'width', 'channels'] }
    writeFile(
      join(here, 'data/pick/meta/info.json'),
      JSON.stringify(info({ features: { ...features, 'observation.images.top': two } })),
    )
    writeFile(join(here, 'data/pick/meta/stats.json'), JSON.stringify(stats()))
    const { policy } = read('smolvla') as { policy: Record<string, unknown> }
    const { input_features: inputs, ...rest } = policy
    const { 'observation.images.camera1': visual, 'observation.state': state } = inputs as Record<string, unknown>
    const config = {
      ...rest,
      chunk_size: 10,
      n_action_steps: 5,
      input_features: { 'observation.images.top': visual, 'observation.state': state },
    }
    writeFile(join(here, 'weights/base/config.json'), JSON.stringify(config))
    const flags = ['--policy.path=weights/base', '--dataset.repo_id=me/pick', '--dataset.root=data/pick', '--steps=100']
    const told = await vla(here, [
      ...['import', '--from-lerobot', '--out', 'run/pipeline.ts', '--gpu', 'H100-SXM-80GB', '--processes', '4'],
      ...['--json', '--', ...flags],
    ])
    const output = cliOutput.parse(JSON.parse(told.stdout)) as unknown as { remarks: Remark[] }
    const text = readFileSync(join(here, 'run/pipeline.ts'), 'utf8')
    expect(text).toContain("smolvla({ weights: '../weights/base', cameras: ['top'] })")
    expect(text).toContain("data: lerobotDataset({ repo: 'me/pick', root: '../data/pick' })")
    expect(text).toContain("gpus('H100-SXM-80GB', { perNode: 4 })")
    expect(text).toContain('globalBatch: 32')
    expect(output.remarks).toContainEqual(
      expect.objectContaining({
        kind: 'ignored',
        field: 'dataset.repo_id',
        message: expect.stringContaining('observation.image ') as string,
      }),
    )
    const checkpoint = join(here, 'checkpoints/000100')
    writeFile(join(checkpoint, 'pretrained_model/train_config.json'), JSON.stringify(read('act')))
    // The hub's cache, the snapshot of the main branch before others.
    const cache = join(here, 'hub/models--me--act')
    writeFile(join(cache, 'snapshots/aaa/train_config.json'), JSON.stringify({ ...read('act'), steps: 1 }))
    writeFile(join(cache, 'snapshots/bbb/train_config.json'), JSON.stringify({ ...read('act'), steps: 2222 }))
    writeFile(join(cache, 'refs/main'), 'bbb')
    await vla(here, ['import', '--from-lerobot', 'me/act', '--out', 'hub.ts'], {
      env: { HF_HUB_CACHE: join(here, 'hub') },
    })
    expect(readFileSync(join(here, 'hub.ts'), 'utf8')).toContain('updates: 2_222')
    writeFile(join(checkpoint, 'training_state/training_step.json'), JSON.stringify({ step: 100, num_processes: 8 }))
    await vla(here, ['import', '--from-lerobot', checkpoint, '--out', 'act.ts'])
    expect(readFileSync(join(here, 'act.ts'), 'utf8')).toContain('globalBatch: 64')
  })
})

describe('what cannot be imported', () => {
  it('is told all at once', () => {
    const { text, problems } = fromFlags([
      ...['--policy.type=act', '--policy.chunk_siz=10', '--policy.n_heads=many', '--stepps=5', '--ema.enable=true'],
      ...['--optimizer.type=lion', '--policy.use_visual_memory=true', 'rest'],
    ])
    expect(text).toBeUndefined()
    const told = Object.fromEntries(problems.map(({ field, message, fix }) => [field, `${message} ${fix}`]))
    expect(told['rest']).toContain('is no flag')
    expect(told['policy.chunk_siz']).toContain("Did you mean 'policy.chunk_size'?")
    expect(told['policy.n_heads']).toContain('"many"')
    expect(told['stepps']).toContain("Did you mean 'steps'?")
    expect(told['ema']).toContain('newer LeRobot')
    expect(told['policy.use_visual_memory']).toContain('newer LeRobot')
    expect(told['optimizer.type']).toContain("'xvla-adamw'")
    expect(told['dataset.repo_id']).toContain('No dataset')
  })

  it.each([
    [['--policy.type=atc'], 'policy.type', "Did you mean 'act'?"],
    [['--policy.type=tdmpc'], 'policy.type', "lerobotPolicy({ type: 'tdmpc'"],
    [['--policy.type=diffusion', '--policy.horizon=15'], 'policy.horizon', 'multiple of 8'],
    [['--rename_map={"a": "b"}'], 'rename_map', 'without a pretrained policy'],
    [['--eval_steps=10'], 'eval_steps', 'eval_split'],
    [['--use_policy_training_preset=false'], 'use_policy_training_preset', 'both an optimizer and a scheduler'],
    [
      ['--policy.normalization_mapping={"VISUAL": "MEAN_STD", "STATE": "QUANTILE10", "ACTION": "MEAN_STD"}'],
      'policy.normalization_mapping.STATE',
      'q10 and q90',
    ],
    [['--peft.r=8'], 'peft', 'not pretrained'],
    [['--env.type=metaworld', '--env.task=reach-v2'], 'env.task', "'reach-v3'"],
    [['--dataset.eval_split=2'], 'dataset.eval_split', '2'],
    [['--policy.optimizer_lr=0'], 'policy.optimizer_lr', 'It cannot be 0. Give a number above 0.'],
    [['--policy.optimizer_lr=-1'], 'policy.optimizer_lr', '-1'],
    [['--policy.optimizer_lr_backbone=-1e-5'], 'policy.optimizer_lr_backbone', '-0.00001'],
    [['--policy.optimizer_weight_decay=-1'], 'policy.optimizer_weight_decay', '-1'],
    [['--policy.type=pi0', '--policy.optimizer_betas=[0.9, 1]'], 'policy.optimizer_betas', 'from 0 to below 1'],
    [['--policy.type=smolvla', '--policy.optimizer_lr=1e-6'], 'policy.scheduler_decay_lr', '0.000001 to 0.0000025'],
    [['--policy=act'], 'policy', 'an object is expected'],
  ])('%j: %s', (flags, field, words) => {
    const { text, problems } = fromFlags([...base, ...flags], camera)
    expect(text).toBeUndefined()
    const found = problems.find((problem) => problem.field === field)
    expect(`${found?.message ?? ''} ${found?.fix ?? ''}`).toContain(words)
  })

  it('is told once where the policy is no object', () => {
    const { problems } = fromFlags(['--policy=act', '--dataset.repo_id=me/pick'], camera)
    expect(problems.map(({ field }) => field)).toEqual(['policy'])
  })

  it('asks for cameras that nobody knows', () => {
    const { problems } = fromFlags(base)
    expect(problems).toMatchObject([
      { field: 'policy.input_features', fix: expect.stringContaining('--cameras') as string },
    ])
  })

  it('is no file that is there already, broken or missing, and writes nothing', async () => {
    const here = temporaryFolder()
    writeFile(join(here, 'pipeline.ts'), 'mine')
    const file = join(folder, 'act.json')
    expect(await vla(here, ['import', '--from-lerobot', file])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('pipeline.ts is there already') as string,
    })
    expect(readFileSync(join(here, 'pipeline.ts'), 'utf8')).toBe('mine')
    writeFile(join(here, 'broken.json'), '{"policy": ')
    const broken = await vla(here, ['import', '--from-lerobot', 'broken.json', '--out', 'a.ts'])
    expect(broken).toMatchObject({ code: 2, stderr: expect.stringContaining('broken.json cannot be read') as string })
    const hub = ['--policy.path=some/policy', '--dataset.repo_id=me/pick']
    const unknown = await vla(here, ['import', '--from-lerobot', '--out', 'a.ts', '--', ...hub])
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('is not on this machine') as string })
    expect(await vla(here, ['import', '--from-lerobot', '--out', 'a.ts'])).toMatchObject({ code: 2 })
    // A policy's own configuration, of which lerobot-train's lies beside; a hub id; flags in the wrong place; a GPU's family.
    writeFile(join(here, 'policy/config.json'), JSON.stringify(read('act')['policy']))
    const a = ['--out', 'a.ts']
    const toldOf = async (argv: readonly string[]) => (await vla(here, ['import', '--from-lerobot', ...argv])).stderr
    const policyOnly = await toldOf(['policy/config.json', ...a])
    expect(policyOnly).toContain('is the configuration of a policy, not of its training')
    expect(policyOnly).toContain('--policy.path=<this folder>')
    writeFile(join(here, 'policy/train_config.json'), '{}')
    expect(await toldOf(['policy/config.json', ...a])).toContain(`Name ${join(here, 'policy/train_config.json')}.`)
    expect(await toldOf(['me/act', ...a])).toContain('hf download me/act train_config.json')
    expect(await toldOf([...a, '--policy.type=act'])).toContain('Flags of lerobot-train stand behind --')
    expect(await toldOf(['--cameras', 'a=x,a=y', ...a, '--', ...base])).toContain("'a' is given twice")
    expect(await toldOf(['--cameras', 'a=x', '--gpu', 'A100', ...a, '--', ...base])).toContain(
      'Use one of A100-SXM-80GB, A100-SXM-40GB.',
    )
    expect(existsSync(join(here, 'a.ts'))).toBe(false)
  })
})

describe('the written file', () => {
  it('is as Prettier formats it, whatever stands in it', async () => {
    const declaration = {
      name: "it's",
      'not a name': null,
      numbers: Array.from({ length: 60 }, (_, index) => index * 37),
      lists: [
        [1, 2],
        [3, 4],
      ],
      calls: [new Call('wandb', { project: 'a "quoted" one', entity: undefined }), new Call('jsonl')],
      long: new Call('gpus', 'A100-SXM-80GB', { perNode: 8, nodes: 12, network: 'x'.repeat(80) }),
      small: 2.5e-6,
      zero: 0,
      words: Array.from({ length: 12 }, (_, index) => `word number ${String(index)}`),
    }
    const text = pipelineFile(['// A comment.'], declaration)
    const style = await resolveConfig(fileURLToPath(new URL('../../sdk/index.ts', import.meta.url)))
    expect(await format(text, { ...style, parser: 'typescript' })).toBe(text)
  })
})
