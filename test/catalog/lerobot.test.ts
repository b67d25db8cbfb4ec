import { describe, expect, test } from 'vitest'

import type { PolicyDescription, PolicyFacts, PolicyType } from '../../sdk/catalog/lerobot/facts.ts'
import { findPolicy, policies } from '../../sdk/catalog/lerobot/index.ts'
import { smolvlm2 } from '../../sdk/catalog/lerobot/smolvla.ts'
import { florence2Large } from '../../sdk/catalog/lerobot/xvla.ts'
import { adaptedLayers, elements, matchesAny } from '../../sdk/catalog/parameters.ts'
import { fullSize } from './policies.ts'

// Names, shapes, fields and defaults are compared with the real classes in test/python/policies/test_policy_catalog.py.

type Changes = Partial<PolicyDescription>

function facts(type: PolicyType, config: PolicyDescription['config'] = {}, changes: Changes = {}): PolicyFacts {
  return policies[type].describe({
    config,
    cameras: ['front', 'wrist'],
    imageSizes: { front: [224, 224], wrist: [224, 224] },
    stateDim: 14,
    actionDim: 14,
    ...changes,
  })
}

const parameters = ({ modules }: PolicyFacts) => modules.flatMap((module) => module.parameters ?? [])
const sizes = ({ modules }: PolicyFacts) =>
  Object.fromEntries(modules.map(({ name, parameters: own }) => [name, elements(own ?? [])]))
const dead = ({ modules }: PolicyFacts) =>
  elements(modules.flatMap((module) => (module.parameters ?? []).filter(({ name }) => matchesAny(name, module.dead))))
const problems = (found: PolicyFacts) => found.problems.map(({ field }) => field)

const xvlaBase = {
  florence_config: florence2Large,
  action_mode: 'auto',
  max_state_dim: 20,
  resize_imgs_with_padding: [224, 224],
}

describe('published sizes', () => {
  // 450,046,176 and 99,880,992 of it trained: what LeRobot logs of lerobot/smolvla_base.
  test('SmolVLA', () => {
    const found = facts('smolvla')
    expect(elements(parameters(found))).toBe(450_046_176)
    const trained = found.modules.filter(({ frozen }) => !frozen).flatMap((module) => module.parameters ?? [])
    expect(elements(trained)).toBe(99_880_992)
    expect(found.modules.filter(({ frozen }) => frozen).map(({ name }) => name)).toEqual([
      'vision',
      'projector',
      'language',
    ])
  })

  test('SmolVLM2, with all its layers', () => {
    const [vision, projector, language] = facts('smolvla', { num_vlm_layers: 0 }).modules
    const all = [vision, projector, language].flatMap((module) => module?.parameters ?? [])
    expect(elements(all)).toBe(smolvlm2.parameters)
  })

  test('pi0, of which 0.9 billion are dead', () => {
    const found = facts('pi0')
    expect(sizes(found)).toEqual({
      vision: 412_442_352,
      projector: 2_361_344,
      language: 3_035_179_008,
      expert: 574_788_608,
      heads: 3_248_160,
    })
    // Both heads; of the last layer queries, output projection, feed-forward and a norm; the norm behind it.
    const layer = 2 * 2048 * 2048 + 3 * 2048 * 16_384 + 2048
    expect(dead(found)).toBe(257_152 * (2048 + 1024) + layer + 2048)
  })

  // LeRobot logged 3,616,757,520 while the head was tied.
  test('pi0.5', () => {
    expect(elements(parameters(facts('pi05')))).toBe(3_616_757_520 + 257_152 * 2048)
  })

  // What LeRobot logs of lerobot/xvla-base.
  test('X-VLA', () => {
    expect(elements(parameters(facts('xvla', xvlaBase)))).toBe(879_482_456)
  })

  test('ACT and Diffusion Policy of two cameras', () => {
    expect(sizes(facts('act'))).toMatchObject({ vision: 11_166_912, heads: 14 * 512 + 512 + 512 * 14 + 14 })
    expect(sizes(facts('diffusion'))).toMatchObject({ vision: 2 * 11_176_512 })
  })
})

describe('modules', () => {
  test.each(fullSize.map((entry) => [entry.type, entry.name, entry] as const))(
    'of %s (%s) are a partition, and no pattern is idle',
    (type, _, description) => {
      const found = policies[type].describe(description)
      const names = parameters(found).map(({ name }) => name)
      expect(new Set(names).size).toBe(names.length)
      for (const module of found.modules)
        for (const { name } of module.parameters ?? [])
          expect(
            found.modules.filter(({ patterns }) => matchesAny(name, patterns)).map((owner) => owner.name),
            name,
          ).toEqual([module.name])
      for (const pattern of found.modules.flatMap((module) => [...module.patterns, ...module.dead]))
        expect(
          names.some((name) => matchesAny(name, [pattern])),
          pattern,
        ).toBe(true)
      for (const { blocks, liveBlocks } of found.modules) expect(blocks).toHaveLength(liveBlocks.length)
    },
  )

  test("an adapter never sits on torch's own attention, which does not call its projection", () => {
    const adapted = facts('act').modules.flatMap((module) =>
      adaptedLayers(module.parameters ?? [], null, module.dead).map(({ name }) => name),
    )
    expect(adapted).toContain('model.encoder.layers.0.linear1.weight')
    expect(adapted.filter((name) => name.includes('out_proj'))).toEqual([])
  })

  test('what depends on an unknown width is unknown, and nothing else', () => {
    const open = { unknown: true } as const
    const known = (type: PolicyType, config = {}) =>
      facts(type, config, { stateDim: open, actionDim: open, imageSizes: open })
        .modules.filter((module) => module.parameters !== undefined)
        .map(({ name }) => name)
    expect(known('act')).toEqual(['vision', 'projector', 'decoder'])
    expect(known('diffusion')).toEqual(['vision', 'projector'])
    expect(known('pi0')).toEqual(['vision', 'projector', 'language', 'expert', 'heads'])
    expect(known('smolvla', { vlm_model_name: './own' })).toEqual([])
  })

  test('without proprioception no module claims its projection', () => {
    const patterns = facts('act', {}, { stateDim: 0 }).modules.flatMap((module) => module.patterns)
    expect(patterns.filter((pattern) => pattern.includes('robot_state'))).toEqual([])
  })

  test('SmolVLA trained in full: what LeRobot leaves frozen', () => {
    const found = facts('smolvla', { train_expert_only: false, freeze_vision_encoder: false })
    const language = found.modules[2]
    expect(found.modules.map(({ frozen }) => frozen)).toEqual([false, false, false, false, false])
    expect(language?.frozenParts).toContain('model.vlm_with_expert.vlm.model.text_model.layers.15.*')
    // The expert attends to the last layer's keys and values, which therefore could train.
    const key = 'model.vlm_with_expert.vlm.model.text_model.layers.15.self_attn.k_proj.weight'
    expect(matchesAny(key, language?.dead ?? [])).toBe(false)
    expect(language?.liveBlocks).toEqual([16])
  })

  test('SmolVLA with half as many expert layers: the layers behind the last pair are dead', () => {
    const found = facts('smolvla', { num_expert_layers: 8, attention_mode: 'self_attn' })
    expect(found.joint?.every).toBe(2)
    expect(found.modules.map(({ liveBlocks }) => liveBlocks)).toEqual([[12], [], [15], [8], []])
  })
})

describe('sequences', () => {
  test('tokens', () => {
    expect(facts('pi0').sequence).toEqual({ perImage: 256, images: 2, language: 48, state: 1, actions: 50 })
    expect(facts('pi05', { empty_cameras: 1 }).sequence).toEqual({
      perImage: 256,
      images: 3,
      language: 200,
      state: 0,
      actions: 50,
    })
    expect(facts('smolvla').sequence).toMatchObject({ perImage: 64, language: 48 })
    expect(facts('xvla', xvlaBase).sequence).toMatchObject({ perImage: 50, language: 64, actions: 32 })
    expect(facts('act', {}, { imageSizes: { front: [480, 640] } }).sequence).toMatchObject({ perImage: 15 * 20 })
  })

  test('X-VLA does not take images of a camera as they are', () => {
    const config = { ...xvlaBase, resize_imgs_with_padding: null }
    const sized = { front: [480, 640], wrist: [480, 640] } as const
    // 32 + 64 + 2 x (15 x 20 + 1) = 698.
    const found = facts('xvla', config, { imageSizes: sized })
    expect(found.problems).toEqual([
      { field: 'max_len_seq', message: expect.stringContaining('are 698, above max_len_seq (512)') as string },
    ])
  })

  test('masks', () => {
    expect(facts('pi0').mask).toMatchObject({ kind: 'blockCausal', actions: 'bidirectional' })
    expect(facts('smolvla').mask).toMatchObject({ kind: 'blockCausal', actions: 'causal' })
    expect(facts('xvla', xvlaBase).mask).toEqual({ kind: 'full' })
    expect(facts('diffusion').mask).toEqual({ kind: 'none' })
  })

  test('Diffusion Policy begins with the first frame that it sees', () => {
    expect(facts('diffusion')).toMatchObject({ observationSteps: 2, firstAction: -1, chunk: 64, actionSteps: 32 })
  })
})

describe('what LeRobot refuses, or does in silence', () => {
  test.each<readonly [PolicyType, Record<string, unknown>, Changes, string]>([
    ['act', { chunk_size: 10 }, {}, 'n_action_steps'],
    ['act', { vision_backbone: 'vit' }, {}, 'vision_backbone'],
    ['act', { feedforward_activation: 'glu' }, {}, 'feedforward_activation'],
    ['act', { n_obs_steps: 2 }, {}, 'n_obs_steps'],
    ['act', {}, { stateDim: 0 }, 'state'],
    ['act', { shunk_size: 10 }, {}, 'shunk_size'],
    ['diffusion', { horizon: 20 }, {}, 'horizon'],
    ['diffusion', { n_action_steps: 64 }, {}, 'n_action_steps'],
    ['diffusion', { use_group_norm: true }, {}, 'use_group_norm'],
    ['diffusion', {}, { imageSizes: { front: [64, 64], wrist: [64, 48] } }, 'images'],
    ['smolvla', { num_expert_layers: 8 }, {}, 'num_expert_layers'],
    ['smolvla', { vlm_model_name: './own' }, { base: { model_type: 'llava' } }, 'vlm_model_name'],
    ['pi0', { max_action_dim: 7 }, {}, 'max_action_dim'],
    ['pi0', { paligemma_variant: 'gemma_300m' }, {}, 'paligemma_variant'],
    ['pi05', { image_resolution: [224, 256] }, {}, 'image_resolution'],
    ['xvla', {}, {}, 'florence_config'],
    ['xvla', { ...xvlaBase, action_mode: 'ee6d' }, {}, 'action_mode'],
    ['xvla', { ...xvlaBase, action_mode: 'so101_bimanual', max_state_dim: 32 }, { actionDim: 12 }, 'max_state_dim'],
    ['xvla', xvlaBase, { stateDim: 21 }, 'max_state_dim'],
    ['xvla', xvlaBase, { actionDim: 21 }, 'max_action_dim'],
  ])('%s %j %j', (type, config, changes, field) => {
    const found = facts(type, config, changes)
    expect(problems(found)).toContain(field)
    for (const { message } of found.problems) expect(message).toMatch(/\.$/)
  })

  test('nothing is counted on a configuration that was not understood', () => {
    expect(parameters(facts('act', { dim_model: 'wide' }))).toEqual([])
    expect(facts('act', { dim_model: 'wide' }).problems[0]?.message).toMatch(/^dim_model cannot be "wide": /)
  })

  test('fields of other places may stand in a configuration', () => {
    expect(facts('pi0', { type: 'pi0', device: 'cuda', push_to_hub: false, dtype: 'bfloat16' }).problems).toEqual([])
  })

  test('a name that an object has by nature is no policy', () => {
    expect(findPolicy('toString')).toBeUndefined()
    expect(findPolicy('act')).toBe(policies.act)
  })
})

describe('pretrained files', () => {
  test.each(fullSize.map((entry) => [entry.type, entry.name, entry] as const))(
    'of %s (%s) may lack what nothing reads and what another key holds, and nothing else',
    (type, _, description) => {
      const { modules, weights } = policies[type].describe(description)
      const names = modules.flatMap((module) => (module.parameters ?? []).map(({ name }) => name))
      const keys = new Set([...names, ...weights.tied.flat()])
      const deadPatterns = modules.flatMap((module) => module.dead)
      for (const { key, from } of weights.missing) {
        expect(keys).toContain(key)
        if (from === undefined) expect(matchesAny(key, deadPatterns), key).toBe(true)
        else expect(keys).toContain(from)
      }
      for (const { pattern } of weights.unexpected)
        expect(
          [...keys].filter((key) => matchesAny(key, [pattern])),
          pattern,
        ).toEqual([])
    },
  )
})

describe('recipes', () => {
  test('follow the configuration', () => {
    expect(facts('pi0').recipe).toMatchObject({ lr: 2.5e-5, betas: [0.9, 0.95], weightDecay: 0.01, clip: 1 })
    expect(facts('pi0').recipe.schedule).toEqual({ kind: 'cosineDecay', warmup: 1000, decay: 30_000, floor: 0.1 })
    expect(facts('act', { optimizer_lr: 1e-4 }).recipe).toMatchObject({ lr: 1e-4, clip: 10 })
    expect(facts('diffusion').recipe).toMatchObject({ optimizer: 'adam', schedule: { kind: 'cosine', warmup: 500 } })
  })
})
