import { describe, expect, it } from 'vitest'
import type { Finding } from '../../sdk/finding/finding.ts'
import type { MergePatch } from '../../sdk/rules/rule.ts'
import { judge, lockOf, pipelineText } from './chain.ts'

const found = (code: string, lock?: MergePatch): Finding[] =>
  judge(pipelineText(code), lockOf(lock)).findings.filter(({ severity }) => severity !== 'info')
const brief = (findings: readonly Finding[]): string[] => findings.map(({ id, path }) => `${id} ${path.join('.')}`)

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
