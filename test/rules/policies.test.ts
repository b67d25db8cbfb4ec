import { describe, expect, it } from 'vitest'
import type { Finding } from '../../sdk/finding/finding.ts'
import type { Lock } from '../../sdk/lock/lock.ts'
import type { MergePatch } from '../../sdk/rules/rule.ts'
import { findPolicy } from '../../sdk/catalog/lerobot/index.ts'
import { judge, lockOf, pipelineText } from './chain.ts'

const found = (code: string, patch?: MergePatch, weights: Lock['weights'] = {}): Finding[] => {
  const lock = lockOf(patch)
  const { findings } = judge(pipelineText(code), { ...lock, weights: { ...lock.weights, ...weights } })
  return findings.filter(({ severity }) => severity !== 'info')
}
const brief = (findings: readonly Finding[]): string[] => findings.map(({ id, path }) => `${id} ${path.join('.')}`)

/** The weights directory ./weights/mine, as the lock has it. */
const locked = (config: object, tensors: Lock['weights'][string]['tensors'] = {}): Lock['weights'] => ({
  'weights/mine': {
    ...{ revision: null, fingerprint: '0'.repeat(64), config: config as Record<string, never>, image: null },
    ...{ tokenizer: [], tensors, statistics: {} },
  },
})

describe('what a LeRobot policy refuses is said where it was written, with what to do', () => {
  const wide = { datasets: { 'data/reach': { features: { action: { shape: [36] } } } } }

  it('a chunk, which is a field of the configuration under another name', () => {
    const code = `model: diffusion({ cameras: ['front'], chunk: 15, batchNorm: 'frozen' }),`
    expect(brief(found(code))).toContain('VLA530 model.chunk')
  })

  it('actions that are wider than the padded ones', () => {
    const code = `model: pi0({ cameras: ['base_0_rgb'] }), cameras: { base_0_rgb: 'observation.image' },
hardware: gpus('A100-SXM-80GB'), training: { updates: 1_000, globalBatch: 32, microBatch: 32 },`
    const finding = found(code, wide).find(({ id }) => id === 'VLA530')
    expect(finding?.message).toBe('The action has 36 dimensions, max_action_dim is 32: the projection does not fit.')
    expect(finding?.fix).toContain('config: { max_action_dim: 36 }')
  })

  it('no proprioception', () => {
    const finding = found(`model: act({ cameras: ['front'], chunk: 16, state: false }),`).find(
      ({ id }) => id === 'VLA530',
    )
    expect(finding?.fix).toContain('Leave `state: false` out')
  })
})

describe('the configuration of a pretrained policy', () => {
  const weights = (config: object): Lock['weights'] => locked({ type: 'act', ...config })
  const code = `model: act({ weights: './weights/mine', cameras: ['front'], chunk: 16 }),`

  it('of a newer LeRobot has fields that this one refuses', () => {
    const finding = found(code, undefined, weights({ use_visual_memory: true })).find(({ id }) => id === 'VLA530')
    expect(finding?.message).toBe(
      "The configuration of act in LeRobot 0.6.1 has no field 'use_visual_memory'; LeRobot refuses to read it.",
    )
    const other = found(code, undefined, weights({ type: 'pi05', max_action_dim: 32 }))
    expect(brief(other)).toEqual(['VLA024 model.weights'])
    expect(other[0]?.message).toContain("are of a model of type 'pi05', and this is 'act'")
    expect(other[0]?.fix).toContain('Use pi05({ ... }) with these weights')
    expect(brief(found(code, undefined, weights({ dim_model: 256 })))).not.toContain('VLA530 model.config.dim_model')
  })
})

describe("the tensors of a pretrained policy's file", () => {
  type Shapes = Record<string, readonly number[]>
  const shapesOf = (type: string, config: Readonly<Record<string, unknown>>, camera: string): Shapes => {
    const facts = findPolicy(type)?.describe({
      ...{ config, cameras: [camera], imageSizes: { [camera]: [64, 64] }, stateDim: 4, actionDim: 4 },
    })
    const tensors = facts?.modules.flatMap(({ parameters, buffers }) => [...(parameters ?? []), ...(buffers ?? [])])
    return Object.fromEntries((tensors ?? []).map(({ name, shape }) => [name, shape]))
  }
  const told = (type: string, code: string, shapes: Shapes, config: object = {}): string[] => {
    const tensors = Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => [name, { dtype: 'F32', shape: [...shape] }]),
    )
    return found(code, undefined, locked({ type, ...config }, tensors)).flatMap(({ id, message }) =>
      id === 'VLA028' ? [message] : [],
    )
  }
  const act = `model: act({ weights: './weights/mine', cameras: ['front'], chunk: 16 }),`
  const pi05 = `model: pi05({ weights: './weights/mine', cameras: ['base_0_rgb'] }), cameras: { base_0_rgb: 'observation.image' },
hardware: gpus('A100-SXM-80GB'), training: { updates: 1_000, globalBatch: 32, microBatch: 32 },`
  const without = (shapes: Shapes, ...names: readonly string[]): Shapes =>
    Object.fromEntries(Object.entries(shapes).filter(([name]) => !names.includes(name)))

  it('are its parameters, its buffers, and what old files have besides', () => {
    const shapes = shapesOf('act', { chunk_size: 16, n_action_steps: 16 }, 'front')
    expect(Object.keys(shapes).some((name) => name.endsWith('running_mean'))).toBe(true)
    expect(told('act', act, shapes)).toEqual([])
    expect(told('act', act, { ...shapes, 'normalize_inputs.buffer_observation_state.mean': [4] })).toEqual([])
  })

  it('a missing, an extra and a misshapen key are said', () => {
    const shapes = shapesOf('act', { chunk_size: 16, n_action_steps: 16 }, 'front')
    const renamed = { ...without(shapes, 'model.action_head.weight'), 'model.head.weight': [4, 512] }
    expect(told('act', act, renamed)).toEqual([
      "The weights at './weights/mine' are not those of this model: 'model.action_head.weight' is missing; 'model.head.weight' belongs to nothing.",
    ])
    const [wide] = told('act', act, { ...shapes, 'model.action_head.weight': [7, 512] })
    expect(wide).toContain("'model.action_head.weight' is [7, 512], expected [4, 512]")
  })

  it("are taken in openpi's names and without what nobody reads", () => {
    const shapes = shapesOf('pi05', {}, 'base_0_rgb')
    expect(told('pi05', pi05, shapes)).toEqual([])
    const bare = Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => [name.replace(/^model\./, ''), shape]),
    )
    expect(told('pi05', pi05, bare)).toEqual([])
    const paligemma = 'model.paligemma_with_expert.paligemma'
    const [embedding, head] = [`${paligemma}.model.language_model.embed_tokens.weight`, `${paligemma}.lm_head.weight`]
    expect(shapes).toHaveProperty([embedding])
    expect(told('pi05', pi05, without(shapes, embedding))).toEqual([])
    // The embedding's values are those of the head, so that one of the two is there.
    expect(told('pi05', pi05, without(shapes, embedding, head))[0]).toContain(`'${embedding}' is missing`)
  })
})

describe('a dataset without proprioception', () => {
  const bare = {
    datasets: {
      'data/reach': {
        features: { 'observation.state': null },
        statistics: { 'observation.state': null },
      },
    },
  }

  it('is one finding, and its actions are not proposed as the state', () => {
    const findings = found(`normalize: { state: 'meanStd', action: 'meanStd' },`, bare)
    expect(brief(findings)).toEqual(['VLA025 data.state'])
    expect(findings[0]?.fix).toContain('no vector feature beside the actions')
  })
})

describe('a camera that one of two datasets lacks', () => {
  const two = {
    datasets: {
      'data/top': {
        $copy: 'data/reach',
        features: {
          'observation.image': null,
          'observation.top': { dtype: 'image', shape: [64, 64, 3], names: ['height', 'width', 'channels'] },
        },
      },
    },
  }
  const data = `data: [{ from: lerobotDataset({ root: 'data/reach' }), weight: 1 }, { from: lerobotDataset({ root: 'data/top' }), weight: 1 }],`

  it('gets no fix that would break the other', () => {
    const finding = found(data, two).find(({ id }) => id === 'VLA502')
    expect(finding).toMatchObject({ fix: "It has 'observation.top'.", fixes: [] })
  })

  it('and no fix that gives two cameras one feature', () => {
    const model = `model: composed({ cameras: ['front', 'wrist'], vision: tower, projector: keyPoints, language: trunk, state: true, action: regression({ chunk: 8 }), promptTokens: 128 }),
cameras: { front: 'observation.image', wrist: 'observation.wrist' },`
    expect(found(model).find(({ id }) => id === 'VLA502')?.fixes).toEqual([])
  })
})

describe('targets of adapters', () => {
  it('each of them matches a layer', () => {
    const code = `modules: { language: { adapt: lora({ rank: 8, targets: ['q_proj', 'v_poj'] }) } },`
    const finding = found(code).find(({ id }) => id === 'VLA401')
    expect(finding).toMatchObject({
      message: "The target 'v_poj' matches no layer of the module 'language'.",
      path: ['modules', 'language', 'adapt', 'targets', 1],
    })
    expect(finding?.fix).toContain("'v_proj'")
    expect(found(code.replace('v_poj', 'v_proj')).filter(({ id }) => id === 'VLA401')).toEqual([])
  })
})

describe('code that a policy fetches', () => {
  const policy = (type: string, config = '{}'): string =>
    `model: lerobotPolicy({ type: '${type}', cameras: ['front'], chunk: 5, images: 'identity', config: ${config}, modules: { policy: { parameters: ['*'] } } }),`

  it.each([
    ['pi0_fast', '{}', "The action tokenizer of 'pi0_fast' is code of 'lerobot/fast-action-tokenizer'"],
    ['pi0_fast', `{ action_tokenizer_name: 'lab/fast' }`, "code of 'lab/fast'"],
    ['wall_x', '{}', "The action tokenizer of 'wall_x'"],
    ['groot', '{}', "The base model of 'groot' is code of 'nvidia/GR00T-N1.7-3B'"],
  ])('%s %s', (type, config, message) => {
    const finding = found(policy(type, config)).find(({ id }) => id === 'VLA537')
    expect(finding?.message).toContain(message)
    expect(finding?.fix).toContain('hf download')
  })

  it.each([
    ['pi0_fast', `{ action_tokenizer_name: './fast' }`],
    ['wall_x', `{ action_tokenizer_path: null }`],
    ['gaussian_actor', '{}'],
    ['vqbet', '{}'],
  ])('not %s %s', (type, config) => {
    expect(brief(found(policy(type, config)))).not.toContain('VLA537 model.type')
  })
})
