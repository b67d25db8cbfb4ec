/** `vla inspect`, and what it proposes: a policy type that no catalog entry knows, from there to a reloaded package. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findPolicy } from '../../sdk/catalog/lerobot/index.ts'
import type { Inspected } from './inspected.ts'
import { vla, vlaJson } from './io.ts'

const root = resolve(import.meta.dirname, '../..')
const python = join(root, '.venv/bin/python')
let folder = ''

const env = {
  PATH: process.env['PATH'] ?? '',
  HOME: process.env['HOME'] ?? '',
  HF_HUB_OFFLINE: '1',
  OMP_NUM_THREADS: '1',
}
const more = { env }

async function inspect(type: string, ...options: readonly string[]): Promise<Inspected> {
  return (await vlaJson(folder, ['inspect', type, '--python', python, ...options], more)) as unknown as Inspected
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vla-inspect-test-'))
  execFileSync(python, [join(import.meta.dirname, 'tiny.py'), folder], { env, stdio: 'pipe' })
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n')
  mkdirSync(join(folder, 'garbled'))
  writeFileSync(join(folder, 'garbled/config.json'), '{"type": "act", ')
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

const sizes = ['--image-size', '64', '--state-dim', '4', '--action-dim', '4', '--cameras', 'front']
const types = {
  multi_task_dit: {
    config: {
      vision_encoder_name: './clip',
      text_encoder_name: './clip',
      image_resize_shape: [32, 32],
      image_crop_shape: null,
      hidden_dim: 32,
      num_layers: 2,
      num_heads: 2,
      horizon: 8,
      n_action_steps: 4,
      timestep_embed_dim: 16,
      num_train_timesteps: 10,
    },
    modules: ['visionEncoder', 'textEncoder', 'noisePredictor', 'heads'],
    images: 'imagenet',
  },
  evo1: {
    config: {
      training_stage: 'stage2',
      vlm_model_name: './internvl',
      vlm_num_layers: 2,
      vlm_dtype: 'float32',
      image_resolution: [32, 32],
      max_views: 1,
      embed_dim: 32,
      hidden_dim: 32,
      state_hidden_dim: 32,
      num_heads: 2,
      num_layers: 2,
      chunk_size: 8,
      n_action_steps: 4,
      max_state_dim: 5,
      max_action_dim: 6, // which its postprocessor cuts to the four of the data
      max_text_length: 96,
      use_flash_attn: false,
      enable_gradient_checkpointing: false,
      num_inference_timesteps: 3,
    },
    modules: ['visionTower', 'languageModel', 'actionHead', 'embedTokens', 'seqPoolProj', 'heads'],
    images: 'identity',
  },
} as const

describe('what inspect shows', () => {
  it('is the policy that the catalog describes, where it does', async () => {
    const options = ['--config', '{"pretrained_backbone_weights": null, "dim_model": 64, "n_heads": 4}', ...sizes]
    const { inspection, snippet } = await inspect('act', ...options)
    const facts = findPolicy('act')?.describe({
      config: { pretrained_backbone_weights: null, dim_model: 64, n_heads: 4 },
      cameras: ['front'],
      imageSizes: { front: [64, 64] },
      stateDim: 4,
      actionDim: 4,
    })
    const known = (facts?.modules ?? []).flatMap(({ parameters }) => parameters ?? [])
    const elements = known.reduce((sum, { shape }) => sum + shape.reduce((product, side) => product * side, 1), 0)
    expect(inspection.parameters).toBe(elements)
    expect(inspection.bytes).toBe(4 * elements)
    expect(inspection).toMatchObject({ traced: true, chunk: 100, dead: [], loss: 'own', batch_norm: [] })
    const modules = Object.values(inspection.modules)
    expect(modules.reduce((sum, { count }) => sum + count, 0)).toBe(elements)
    expect(inspection.blocks).toContainEqual(
      expect.objectContaining({ pattern: 'model.encoder.layers.*', kind: 'ACTEncoderLayer', blocks: 4, called: 4 }),
    )
    expect(snippet).toContain("type: 'act'")
    expect(snippet).toContain('The catalog describes act')
  })

  it('is shown without a step where none can be run', async () => {
    const { inspection } = await inspect(
      'multi_task_dit',
      '--config',
      JSON.stringify({ ...types.multi_task_dit.config, image_resize_shape: null }),
      ...sizes,
    )
    expect(inspection).toMatchObject({ traced: false, blocks: [], dead: [] })
    expect(inspection.because).toContain("doesn't match model")
    expect(Object.keys(inspection.modules).length).toBeGreaterThan(1)
  })
})

describe('bad input', () => {
  it.each([
    [['multi_task_dti'], "Did you mean 'multi_task_dit'?"],
    [['act', '--config', '{"chunk_siz": 3}'], 'chunk_siz'],
    [['act', '--config', 'nowhere.json'], 'nowhere.json is not there'],
    [['act', '--weights', 'clip'], "is of a policy of type None, not 'act'"],
    [['act', '--weights', 'garbled'], 'config.json is no JSON'],
    [['broken', '--plugin', 'lerobot_policy_broken'], "No module named 'a_package_that_nobody_has'"],
    [['absent', '--plugin', 'lerobot_policy_absent'], "No module named 'lerobot_policy_absent'"],
    [['act', '--image-size', 'large'], '224 or 240x320'],
  ])('%j: %s', async (args, message) => {
    const { code, stderr } = await vla(folder, ['inspect', ...args, '--python', python], more)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
    expect(stderr).not.toContain('Traceback')
  })
})

// Both in the whole suite, else the one that VLA_TEST_SEED chooses.
const all = Object.entries(types)
const seed = Number(process.env['VLA_TEST_SEED'] ?? '0')
const drawn = process.env['VLA_TEST_DRAW'] === undefined ? all.filter((_, index) => index === seed % all.length) : all

describe.each(drawn)('%s, which no catalog entry knows', (type, { config, modules, images }) => {
  it('goes from inspect to a package that LeRobot loads', async () => {
    expect(findPolicy(type)).toBeUndefined()
    const { inspection, snippet } = await inspect(type, '--config', JSON.stringify(config), ...sizes)
    expect(inspection.traced).toBe(true)
    expect(Object.keys(inspection.modules)).toEqual(modules)
    expect(snippet).toContain(`images: '${images}'`)
    writeFileSync(
      join(folder, `${type}.ts`),
      `import { cpus, defineVLAPipeline, lerobot, lerobotDataset, lerobotPolicy } from 'vla-pipeline'

export default defineVLAPipeline({
  name: '${type.replaceAll('_', '-')}',
  ${snippet}
  data: lerobotDataset({ root: 'data' }),
  cameras: { front: 'observation.images.front' },
  hardware: cpus({ processes: 2 }),
  training: { updates: 2, globalBatch: 8, microBatch: 2, lr: 1e-3, seed: 1 },
  checkpoint: { every: 1 },
  export: [lerobot()],
})
`,
    )
    const check = await vla(folder, ['check', `${type}.ts`], more)
    expect(check).toMatchObject({ code: 0 })
    expect(await vla(folder, ['build', `${type}.ts`, '--out', type], more)).toMatchObject({ code: 0 })
    const trained = await vlaJson(folder, ['run', type, '--python', python], more)
    expect(trained).toMatchObject({ ok: true, updates: 2 })
    const packed = await vla(folder, ['pack', type, '--python', python], more)
    expect(packed, packed.stderr).toMatchObject({ code: 0 })
    const content = (name: string): unknown =>
      JSON.parse(readFileSync(join(folder, type, 'packages/lerobot', name), 'utf8'))
    const { steps } = content('policy_preprocessor.json') as { steps: { registry_name: string; config: object }[] }
    const normalizer = steps.find(({ registry_name: name }) => name === 'normalizer_processor')
    expect(normalizer?.config).toMatchObject({ norm_map: { VISUAL: images === 'imagenet' ? 'MEAN_STD' : 'IDENTITY' } })
    const mean = (content('stats.json') as Record<string, { mean: number[] }>)['observation.images.front']?.mean
    expect(mean).toEqual(
      images === 'imagenet' ? [0.485, 0.456, 0.406].map((value) => expect.closeTo(value, 6) as number) : undefined,
    )
    const verification = content('verification.json') as {
      largestDifference: number
      tolerance: number
      update: number
    }
    expect(verification.update).toBe(2)
    expect(verification.largestDifference).toBeLessThanOrEqual(verification.tolerance)
  })
})
