/** LeRobot's policies in the Plan: what the declaration, the catalog, the pretrained policy and the dataset say of them. */
import { describe, expect, it } from 'vitest'
import { act, cpus, defineVLAPipeline, lerobotDataset, lerobotPolicy, pi05, type Declaration } from '../../sdk/index.ts'
import type { Lock } from '../../sdk/lock/lock.ts'
import { isKnown, type Plan, type PolicyPlanModel } from '../../sdk/plan/plan.ts'
import { emit } from '../../sdk/emit/emit.ts'
import { context, text } from '../emit/context.ts'
import { dataset, lock, planOf } from './fixtures.ts'

function declare(model: unknown, cameras: Record<string, string> = { front: 'observation.image' }): Declaration {
  return {
    ...defineVLAPipeline({
      name: 'policy',
      model: act({ cameras: ['front'] }),
      data: lerobotDataset({ root: './data/metaworld' }),
      cameras: { front: 'observation.image' },
      hardware: cpus({ processes: 2 }),
      training: { updates: 600, globalBatch: 64, microBatch: 32, lr: 1e-3 },
    }),
    model,
    cameras,
  } as unknown as Declaration
}

function modelOf(plan: Plan): PolicyPlanModel {
  const { model } = plan.pipeline
  if (model.family !== 'lerobot') throw new Error('no policy')
  return model
}

const modules = { policy: { parameters: ['*'] } }
const named = { type: 'vqbet', cameras: ['front'], chunk: 5, modules } as const
const pretrained: Lock = {
  ...lock,
  weights: {
    'weights/vqbet@main': {
      revision: null,
      fingerprint: 'a'.repeat(64),
      config: {
        type: 'vqbet',
        n_obs_steps: 5,
        normalization_mapping: { VISUAL: 'MEAN_STD', STATE: 'QUANTILES', ACTION: 'MIN_MAX' },
      },
      image: null,
      tokenizer: [],
      tensors: {},
      statistics: {},
    },
  },
}

describe('the tokenizer', () => {
  it('is a folder beside pipeline.ts, which the project finds from its own place', () => {
    const cameras = { base_0_rgb: 'observation.image' }
    const { plan } = planOf(declare(pi05({ cameras: ['base_0_rgb'], tokenizer: './words' }), cameras))
    expect(modelOf(plan).tokenizer).toBe('./words')
    const model = text(emit(plan, context), 'model.py')
    expect(model).toContain('tokenizer="../../words"')
    expect(modelOf(planOf(declare(pi05({ cameras: ['base_0_rgb'] }), cameras)).plan).tokenizer).toBeNull()
  })
})

describe('what normalises the pictures', () => {
  it('is what the declaration says, of any policy', () => {
    for (const images of ['imagenet', 'meanStd', 'identity'] as const) {
      expect(modelOf(planOf(declare(lerobotPolicy({ ...named, images }))).plan).images).toBe(images)
      expect(modelOf(planOf(declare(act({ cameras: ['front'], images }))).plan).images).toBe(images)
    }
  })

  it("is LeRobot's for a policy of the catalog", () => {
    expect(modelOf(planOf(declare(act({ cameras: ['front'] }))).plan).images).toBe('imagenet')
    const cameras = { base_0_rgb: 'observation.image' }
    expect(modelOf(planOf(declare(pi05({ cameras: ['base_0_rgb'] }), cameras)).plan).images).toBe('identity')
  })

  it("is the pretrained policy's, with the modes of state and action, and no field of its configuration", () => {
    const { plan } = planOf(declare(lerobotPolicy({ ...named, weights: 'weights/vqbet' })), pretrained)
    expect(modelOf(plan)).toMatchObject({ images: 'imagenet', config: { n_obs_steps: 5 } })
    expect(modelOf(plan).config).not.toHaveProperty('normalization_mapping')
    expect(plan.pipeline.normalize).toMatchObject({ state: 'quantiles', action: 'minMax' })
  })

  it('is not guessed', () => {
    const { images } = modelOf(planOf(declare(lerobotPolicy(named))).plan)
    expect(isKnown(images)).toBe(false)
  })
})

describe('relative actions', () => {
  const cameras = { base_0_rgb: 'observation.image' }
  const model = pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true } })
  const withNames = (names: string[] | null): Lock => {
    const entry = dataset()
    const action = { dtype: 'float32', shape: [4], names }
    return { ...lock, datasets: { 'data/metaworld': { ...entry, features: { ...entry.features, action } } } }
  }

  it("have the dataset's names of the action dimensions", () => {
    const names = ['x', 'y', 'z', 'gripper']
    expect(modelOf(planOf(declare(model, cameras), withNames(names)).plan).config).toMatchObject({
      action_feature_names: names,
    })
    expect(modelOf(planOf(declare(model, cameras), withNames(null)).plan).config).not.toHaveProperty(
      'action_feature_names',
    )
  })

  it('need none where actions are absolute', () => {
    const { plan } = planOf(declare(pi05({ cameras: ['base_0_rgb'] }), cameras), withNames(['x', 'y', 'z', 'gripper']))
    expect(modelOf(plan).config).toEqual({})
  })
})
