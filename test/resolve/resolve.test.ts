import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openvla as facts, openvlaLora } from '../../sdk/catalog/openvla.ts'
import {
  causalLM,
  composed,
  constant,
  cpus,
  ddp,
  flowMatching,
  fused,
  fusedMlp,
  gib,
  gpus,
  imageAugmentation,
  jsonl,
  lastLayers,
  lerobot,
  lerobotDataset,
  linearDecay,
  lora,
  mlp,
  off,
  openvla,
  phase,
  regression,
  simulation,
  slurm,
  spatialSoftArgmax,
  tensorboard,
  timmVision,
  tokens,
  transformersVision,
  until,
  wandb,
  type Declaration,
} from '../../sdk/index.ts'
import type { Lock, WeightsEntry } from '../../sdk/lock/lock.ts'
import { canonicalJson } from '../../sdk/plan/canonical.ts'
import { noteAt, toPointer, valueAt } from '../../sdk/plan/notes.ts'
import { plan as planSchema, type Pipeline } from '../../sdk/plan/plan.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { bridge, dataset, lock, modelOf, moduleOf, openBecause, planOf, small } from './fixtures.ts'

/** A declaration with some options replaced. */
function changed(base: Declaration, changes: Partial<Declaration>): Declaration {
  return { ...base, ...changes }
}

function composedOf(changes: Partial<Parameters<typeof composed>[0]>): Declaration {
  const options = small.model as Extract<Declaration['model'], { kind: 'composed' }>
  return changed(small, { model: composed({ ...options, ...changes }) })
}

const weights = (config: WeightsEntry['config'], changes: Partial<WeightsEntry> = {}): WeightsEntry => ({
  revision: null,
  fingerprint: 'e',
  config,
  image: null,
  tokenizer: [],
  tensors: {},
  statistics: {},
  ...changes,
})

const withWeights = (entries: Record<string, WeightsEntry>): Lock => ({ ...lock, weights: entries })

describe('the plan', () => {
  it.each([
    ['composed', small, lock],
    ['openvla', bridge, lock],
    ['composed, without a lock', small, undefined],
    ['openvla, without a lock', bridge, undefined],
  ])('has the published form: %s', (_, declaration, known) => {
    const { plan } = resolve(declaration, known)
    expect(planSchema.parse(plan)).toEqual(plan)
  })

  it.each([
    ['composed', small],
    ['openvla', bridge],
  ])('has a reason for every value: %s', (_, declaration) => {
    const { plan } = planOf(declaration)
    const leaves: string[] = []
    const walk = (value: unknown, path: (string | number)[]): void => {
      if (typeof value === 'object' && value !== null)
        for (const [key, child] of Object.entries(value))
          walk(child, [...path, Array.isArray(value) ? Number(key) : key])
      else leaves.push(toPointer(path))
    }
    walk(plan.pipeline, [])
    expect(leaves.filter((leaf) => noteAt(plan, leaf) === undefined)).toEqual([])
    // and every note belongs to a value
    expect(Object.keys(plan.notes).filter((pointer) => valueAt(plan.pipeline, pointer) === undefined)).toEqual([])
    for (const note of Object.values(plan.notes)) expect(note.reason).toMatch(/\S.*[.)]$|https?:\/\/|\.py/)
  })

  it('is a pure function of its input', () => {
    const before = canonicalJson(small)
    const first = resolve(small, lock)
    expect(canonicalJson(small)).toBe(before)
    expect(canonicalJson(resolve(small, lock))).toBe(canonicalJson(first))
  })

  it('does not depend on the order of keys, and its hash covers values alone', () => {
    const reversed = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(reversed)
      if (typeof value !== 'object' || value === null) return value
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([key, child]) => [key, reversed(child)]),
      )
    }
    const { plan } = planOf(bridge)
    const again = planOf(reversed(bridge), reversed(lock) as Lock).plan
    expect(canonicalJson(again)).toBe(canonicalJson(plan))
    // The same value, declared instead of chosen: another note, the same hash.
    const declared = planOf(changed(bridge, { loader: { workers: 4 } })).plan
    expect(declared.notes['/loader/workers']).not.toEqual(plan.notes['/loader/workers'])
    expect(declared.hash).toBe(plan.hash)
    expect(planOf(changed(bridge, { loader: { workers: 5 } })).plan.hash).not.toBe(plan.hash)
  })

  it('survives every declaration that can be read', () => {
    const anything = fc.dictionary(
      fc.constantFrom(
        'name',
        'model',
        'data',
        'cameras',
        'hardware',
        'modules',
        'training',
        'evaluate',
        'export',
        'normalize',
        'rules',
      ),
      fc.jsonValue(),
    )
    fc.assert(
      fc.property(anything, (changes) => {
        const parsedChange = { ...bridge, ...changes } as unknown
        try {
          planOf(parsedChange)
        } catch (error) {
          if (!(error instanceof Error) || !error.message.startsWith('no plan: ')) throw error
        }
      }),
    )
  })
})

describe('OpenVLA', () => {
  it('is spelled out', () => {
    const { plan, findings } = planOf(bridge)
    const { normalize, training, datasets } = plan.pipeline
    const model = modelOf(plan)
    expect(findings).toEqual([])
    expect(model).toMatchObject({
      family: 'openvla',
      cameras: ['primary'],
      prompt: 'In: What action should the robot take to {instruction}?\nOut:',
      promptLower: true,
      promptTrailingToken: 29871,
      mask: 'causal',
      stateDim: 0,
      actionDim: 7,
      action: { decoder: 'tokens', bins: 256, chunk: 1, vocabulary: 32_000, stopToken: 2 },
      weights: { source: 'openvla/openvla-7b', revision: '31f090d', layout: 'openvla' },
    })
    expect(
      model.vision.towers.map(({ name, imageSize, layer, width, tokens: count }) => [
        name,
        imageSize,
        layer,
        width,
        count,
      ]),
    ).toEqual([
      ['vit_large_patch14_reg4_dinov2.lvd142m', 224, -2, 1024, 256],
      ['vit_so400m_patch14_siglip_224', 224, -2, 1152, 256],
    ])
    expect(normalize).toEqual({
      state: 'quantiles',
      action: 'quantiles',
      constant: 'refuse',
      actionMask: [true, true, true, true, true, true, false],
      clip: true,
    })
    expect(training).toMatchObject({
      accumulation: 2,
      clip: 1,
      seed: 7,
      schedule: { kind: 'cosine', warmup: 1_500, floor: 0 },
    })
    expect(datasets).toMatchObject([
      { name: 'bridge', cameras: { primary: 'observation.images.image_0' }, state: null, stateDim: 0, actionDim: 7 },
    ])
    expect(plan.pipeline.parallel).toEqual({ kind: 'fsdp2', shard: 'full', world: 8 })
  })

  it('counts its parameters, dead ones too, and its live blocks', () => {
    const { modules } = planOf(bridge).plan.pipeline
    expect(modules.map(({ name, count, deadCount, liveBlocks }) => [name, count, deadCount, liveBlocks])).toEqual([
      ['vision', 730_911_680, 43_080_480, [23, 26]],
      ['projector', 71_385_600, 0, []],
      ['language', 6_738_939_904, 0, [32]],
    ])
    expect(modules.reduce((sum, { count }) => sum + (count as number), 0)).toBe(facts.parameters)
    expect(modules[0]?.freeze).toEqual([
      { from: 0, trains: 'none', rewarm: 0 },
      { from: 37_500, trains: { lastLayers: 6 }, rewarm: 0 },
    ])
  })

  it('takes what is not said from the published recipe, and says so', () => {
    const { plan } = planOf(changed(bridge, { modules: {} }))
    expect(
      plan.pipeline.modules.map(({ lr, weightDecay, dtype, storage, recompute }) => [
        lr,
        weightDecay,
        dtype,
        storage,
        recompute,
      ]),
    ).toEqual([
      [2e-5, 0, 'bf16', 'fp32', 'none'],
      [2e-5, 0, 'bf16', 'fp32', 'none'],
      [2e-5, 0, 'bf16', 'fp32', 'full'],
    ])
    expect(plan.notes['/modules/2/lr']).toEqual({
      path: ['modules', 'language', 'lr'],
      from: 'recipe',
      reason: expect.stringContaining('prismatic/conf/vla.py') as string,
    })
    const lower = planOf(
      changed(bridge, { modules: {}, training: { ...bridge.training, lr: 3e-5, weightDecay: 0.2 } }),
    ).plan
    expect(moduleOf(lower, 'language')).toMatchObject({ lr: 3e-5, weightDecay: 0.2 })
    expect(lower.notes['/modules/2/lr']).toMatchObject({ path: ['training', 'lr'], from: 'declared' })
  })

  it('has the published adapters with the published targets', () => {
    const adapt = (name: 'vision' | 'projector' | 'language') => ({
      adapt: lora({ rank: 32, targets: openvlaLora.targets[name] }),
    })
    const { plan } = planOf(
      changed(bridge, {
        modules: { vision: adapt('vision'), projector: adapt('projector'), language: adapt('language') },
      }),
    )
    expect(plan.pipeline.modules.reduce((sum, { adapterCount }) => sum + (adapterCount as number), 0)).toBe(110_828_288)
    expect(moduleOf(plan, 'language')).toMatchObject({
      lr: 5e-4,
      weightDecay: 0.01,
      storage: 'bf16',
      recompute: 'none',
      adapt: { rank: 32, alpha: 16, dropout: 0 },
    })
    // Without targets: the linears that receive a gradient.
    const live = planOf(changed(bridge, { modules: { vision: { adapt: lora({ rank: 8 }) } } })).plan
    expect(moduleOf(live, 'vision')).toMatchObject({
      adapt: { rank: 8, alpha: 8, targets: null },
      adapterCount: (26_888_192 * 8) / 32,
    })
  })

  it('is OpenVLA-OFT with regression', () => {
    const { plan } = planOf(changed(bridge, { model: openvla({ weights: './w', action: regression({ chunk: 8 }) }) }))
    expect(plan.pipeline.model).toMatchObject({
      mask: 'full',
      action: { decoder: 'regression', chunk: 8, hidden: 4096, blocks: 2, queries: 'zero', slots: 7 },
    })
    expect(moduleOf(plan, 'action')).toMatchObject({ count: 151_117_831, lr: 5e-4, parameters: ['action_head.*'] })
    // The language head is not built.
    expect(moduleOf(plan, 'language').count).toBe(6_738_939_904 - 131_334_144)
    const chunked = planOf(changed(bridge, { model: openvla({ weights: './w', chunk: 5, action: tokens() }) })).plan
    expect(modelOf(chunked).action).toMatchObject({ decoder: 'tokens', chunk: 5 })
  })

  it('keeps frozen weights in the dtype they are loaded in', () => {
    const frozen = changed(bridge, { modules: { vision: { freeze: 'always', dtype: 'fp32' } } })
    expect(moduleOf(planOf(frozen).plan, 'vision')).toMatchObject({ lr: null, dtype: 'fp32', storage: 'bf16' })
    const tensors = { 'vision_backbone.featurizer.norm.weight': { dtype: 'F32', shape: [1024] } }
    const locked = withWeights({ 'openvla/openvla-7b@31f090d': weights(null, { tensors }) })
    expect(moduleOf(planOf(frozen, locked).plan, 'vision').storage).toBe('fp32')
    expect(moduleOf(planOf(changed(frozen, { parallel: ddp() })).plan, 'vision').storage).toBe('fp32')
    const declared = changed(bridge, { modules: { vision: { freeze: 'always', storage: 'fp32' } } })
    expect(moduleOf(planOf(declared).plan, 'vision').storage).toBe('fp32')
  })

  it('audits the tensors that the lock knows', () => {
    const { modules } = planOf(bridge).plan.pipeline
    expect(modules).toHaveLength(3)
    const tensors = {
      'projector.fc1.weight': { dtype: 'BF16', shape: [1, 2] },
      'projector.old.weight': { dtype: 'BF16', shape: [1] },
    }
    const locked = withWeights({ 'openvla/openvla-7b@31f090d': weights(null, { tensors }) })
    const { findings } = resolve(bridge, locked)
    expect(findings.map(({ id, path }) => [id, path.join('.')])).toEqual([['VLA028', 'model.weights']])
    expect(findings[0]?.message).toContain("'vision_backbone.featurizer.cls_token' is missing")
  })
})

describe('a composed VLA', () => {
  it('is spelled out, and counted as the runtime builds it', () => {
    const { plan, findings } = planOf(small)
    expect(findings).toEqual([])
    expect(plan.pipeline.model).toMatchObject({
      family: 'composed',
      mask: 'full',
      promptLower: false,
      promptTrailingToken: null,
      promptTokens: 128,
      stateDim: 4,
      actionDim: 4,
      weights: null,
      vision: {
        fuse: 'channels',
        towers: [
          {
            name: 'convnext_atto',
            imageSize: 64,
            output: 'map',
            layer: 0,
            norm: 'native',
            width: 40,
            tokens: 256,
            mean: [0.485, 0.456, 0.406],
          },
        ],
      },
      language: {
        source: 'config',
        name: null,
        tokenizer: 'bytes',
        spareTokens: 0,
        hidden: 128,
        layers: 2,
        heads: 4,
        vocab: 320,
      },
      action: { decoder: 'regression', chunk: 8, hidden: 128, blocks: 2, queries: 'learnable', slots: 1 },
    })
    expect(modelOf(plan).language.config).toMatchObject({ model_type: 'llama', vocab_size: 320 })
    // ComposedVLA on the meta device
    expect(plan.pipeline.modules.map(({ name, count, parameters }) => [name, count, parameters])).toEqual([
      ['vision', 32_280, ['vision_backbone.*']],
      ['projector', 9_601 + 17_152, ['projector.*', 'state_projector.*']],
      ['language', 369_280, ['language_model.*']],
      ['action', 52_100, ['action_head.*']],
    ])
    expect(plan.pipeline.modules[0]).toMatchObject({
      blocks: ['vision_backbone.featurizer.stages_*.blocks.*'],
      liveBlocks: [2],
      dtype: 'fp32',
      storage: 'fp32',
      lr: 1e-3,
    })
  })

  it('has sensible sizes of a flow-matching decoder', () => {
    const { plan } = planOf(composedOf({ action: flowMatching({ layers: 2, hidden: 96, chunk: 8 }), state: false }))
    expect(plan.pipeline.model).toMatchObject({
      mask: 'prefix',
      stateDim: 0,
      action: {
        decoder: 'flowMatching',
        attention: 'cross',
        chunk: 8,
        hidden: 96,
        layers: 2,
        heads: 1,
        steps: 10,
        timeAlpha: 1.5,
        timeBeta: 1,
      },
    })
    expect(plan.pipeline.datasets[0]).toMatchObject({ state: null, stateDim: 0, statistics: { action: {} } })
    expect(Object.keys(plan.pipeline.datasets[0]?.statistics ?? {})).toEqual(['action'])
    const heads = (hidden: number): unknown =>
      modelOf(planOf(composedOf({ action: flowMatching({ layers: 1, hidden, chunk: 1 }) })).plan).action
    expect(heads(1024)).toMatchObject({ heads: 16 })
    expect(heads(200)).toMatchObject({ heads: 2 })
    expect(
      planOf(composedOf({ action: flowMatching({ layers: 2, hidden: 64, chunk: 8 }) })).plan.pipeline.modules[3]?.count,
    ).toBe(216_004)
  })

  it('gives a joint expert the layers and heads of its trunk', () => {
    const action = flowMatching({ attention: 'joint', hidden: 48, chunk: 8 })
    const { plan } = planOf(composedOf({ action }))
    expect(plan.pipeline.model).toMatchObject({
      mask: 'prefix',
      stateDim: 4,
      action: {
        decoder: 'flowMatching',
        attention: 'joint',
        chunk: 8,
        hidden: 48,
        mlp: 192,
        layers: 2,
        heads: 4,
        keyValueHeads: 4,
        headDim: 32,
        steps: 10,
        timeAlpha: 1.5,
        timeBeta: 1,
      },
    })
    expect(plan.notes['/model/action/layers']).toMatchObject({ from: 'derived', path: ['model', 'action', 'layers'] })
    expect(plan.notes['/model/action/mlp']?.reason).toBe('Four times the width, as pi0.')
    // JointExpert and LanguageModel on the meta device (test/python/modeling/test_catalog.py holds every shape).
    const layer = 48 * 128 * 4 + 3 * 48 * 192 + 2 * 48
    const heads = 4 * 48 + 48 + (4 * 48 + 48) + (96 * 48 + 48) + (48 * 48 + 48) + (48 * 4 + 4)
    const unread = 2 * 128 * 128 + 3 * 128 * 256 + 128 + 128
    const { modules } = plan.pipeline
    expect(modules.map(({ name, count, deadCount, parameters }) => [name, count, deadCount, parameters])).toEqual([
      ['vision', 32_280, 0, ['vision_backbone.*']],
      ['projector', 9_601, 0, ['projector.*']],
      ['language', 369_280, unread, ['language_model.*']],
      ['action', 2 * layer + 48 + heads, 0, ['action_head.*']],
    ])
    expect(modules[2]?.dead[0]).toBe('language_model.model.layers.1.self_attn.q_proj.*')
    expect(modules[3]).toMatchObject({ blocks: ['action_head.transformer.layers.*'], liveBlocks: [2] })
  })

  it('keeps what a joint expert says, and does not know what its trunk does not say', () => {
    const said = flowMatching({ attention: 'joint', hidden: 48, mlp: 50, layers: 3, heads: 2, chunk: 8, steps: 4 })
    expect(modelOf(planOf(composedOf({ action: said })).plan).action).toMatchObject({
      mlp: 50,
      layers: 3,
      heads: 2,
      keyValueHeads: 4,
      headDim: 32,
      steps: 4,
    })
    const unread = composedOf({
      language: causalLM('Qwen/Qwen2.5-0.5B'),
      action: flowMatching({ attention: 'joint', hidden: 48, chunk: 8 }),
    })
    const open = { unknown: true, because: "VLA024: vla.lock.json has no config of 'Qwen/Qwen2.5-0.5B'" }
    expect(modelOf(planOf(unread).plan).action).toMatchObject({
      layers: open,
      heads: open,
      keyValueHeads: open,
      headDim: open,
    })
    expect(planOf(unread).plan.pipeline.modules[3]?.count).toMatchObject({ unknown: true })
  })

  it('appends one token per bin where actions are tokens', () => {
    const { plan } = planOf(composedOf({ action: tokens({ chunk: 2, bins: 64 }) }))
    expect(plan.pipeline.model).toMatchObject({
      mask: 'causal',
      language: { spareTokens: 64, vocab: 384 },
      action: { decoder: 'tokens', bins: 64, chunk: 2, vocabulary: 384, stopToken: 257 },
    })
    expect(plan.pipeline.modules.map(({ name }) => name)).toEqual(['vision', 'projector', 'language'])
  })

  it('reads configs from the lock', () => {
    const declaration = composedOf({
      vision: fused([transformersVision('./siglip'), timmVision('vit_tiny_patch16_224', { weights: './tiny' })]),
      projector: fusedMlp(),
      language: causalLM('Qwen/Qwen2.5-0.5B', { revision: 'abc' }),
      action: tokens(),
    })
    const qwen = {
      model_type: 'qwen2',
      hidden_size: 896,
      intermediate_size: 4864,
      num_hidden_layers: 24,
      num_attention_heads: 14,
      num_key_value_heads: 2,
      vocab_size: 151_936,
      tie_word_embeddings: true,
      eos_token_id: 151_643,
    }
    const siglip = {
      model_type: 'siglip',
      vision_config: {
        model_type: 'siglip_vision_model',
        hidden_size: 768,
        num_hidden_layers: 12,
        patch_size: 16,
        image_size: 256,
      },
    }
    const known = withWeights({
      siglip: weights(siglip, { image: { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] } }),
      tiny: weights(null, { image: { mean: [0.1, 0.2, 0.3], std: [1, 1, 1] } }),
      'Qwen/Qwen2.5-0.5B@abc': weights(qwen),
    })
    const { plan } = planOf(declaration, known)
    const model = modelOf(plan)
    const { modules } = plan.pipeline
    expect(model.vision.towers[0]).toMatchObject({
      source: 'transformers',
      imageSize: 256,
      layer: -1,
      width: 768,
      tokens: 256,
      mean: [0.5, 0.5, 0.5],
      config: siglip.vision_config,
    })
    expect(model.vision.towers[1]).toMatchObject({
      weights: './tiny',
      mean: [0.1, 0.2, 0.3],
      width: 192,
      tokens: 196,
      layer: -2,
    })
    expect(model.language).toMatchObject({
      hidden: 896,
      layers: 24,
      heads: 14,
      vocab: 152_192,
      spareTokens: 256,
      config: qwen,
    })
    expect(model.action).toMatchObject({ vocabulary: 152_192, stopToken: 151_643 })
    expect(modules[0]).toMatchObject({ liveBlocks: [12, 11], count: { unknown: true } })

    const open = planOf(declaration).plan
    expect(openBecause(modelOf(open).language.hidden)).toBe(
      "VLA024: vla.lock.json has no config of 'Qwen/Qwen2.5-0.5B'",
    )
    expect(openBecause(modelOf(open).vision.towers[0]?.width)).toBe("VLA024: vla.lock.json has no config of './siglip'")
    expect(open.pipeline.modules.map(({ count }) => openBecause(count) !== undefined)).toEqual([true, true, true])
  })

  it('says what the catalog lacks', () => {
    const { plan } = planOf(composedOf({ vision: timmVision('eva02_tiny'), projector: mlp({ layers: 2 }) }))
    expect(modelOf(plan).vision.towers[0]).toMatchObject({ imageSize: 224, output: 'tokens', layer: -2 })
    expect(openBecause(modelOf(plan).vision.towers[0]?.width)).toBe(
      "The catalog does not describe the timm model 'eva02_tiny'.",
    )
    expect(
      modelOf(
        planOf(composedOf({ vision: timmVision('eva02_tiny'), projector: spatialSoftArgmax({ points: 2 }) })).plan,
      ).vision.towers[0],
    ).toMatchObject({ output: 'map', layer: -1 })
    const optional = planOf(
      composedOf({ vision: timmVision('convnext_atto', { options: { drop_path_rate: 0.1 } }) }),
    ).plan
    expect(openBecause(modelOf(optional).vision.towers[0]?.width)).toContain('the options of convnext_atto')
  })
})

describe('data', () => {
  it('has unknown widths without a lock, and says which entry is missing', () => {
    const { plan } = resolve(small, undefined)
    const [first] = plan?.pipeline.datasets ?? []
    expect(openBecause(first?.actionDim)).toBe("VLA020: vla.lock.json has no entry for dataset 'data/metaworld'")
    expect(openBecause(first?.statistics)).toBe("VLA020: vla.lock.json has no entry for dataset 'data/metaworld'")
    expect(openBecause(plan?.pipeline.normalize.actionMask)).toBe(
      "VLA020: vla.lock.json has no entry for dataset 'data/metaworld'",
    )
    expect(openBecause(plan?.pipeline.model.actionDim)).toBe(
      "VLA020: vla.lock.json has no entry for dataset 'data/metaworld'",
    )
  })

  it('reports a feature that is missing or no vector, and which there are', () => {
    const { findings } = resolve(
      changed(small, {
        data: lerobotDataset({ root: 'data/metaworld', action: 'actions', state: 'observation.image' }),
      }),
      lock,
    )
    expect(findings.map(({ id, path, message, fix }) => [id, path.join('.'), message, fix])).toEqual([
      [
        'VLA025',
        'data.state',
        "Feature 'observation.image' is no vector of numbers (image [64, 48, 3]).",
        "Use one of 'observation.state', 'action': `state` of lerobotDataset.",
      ],
      [
        'VLA025',
        'data.action',
        "Feature 'actions' is not in the dataset.",
        "Use one of 'observation.state', 'action': `action` of lerobotDataset.",
      ],
    ])
  })

  it('maps a camera only where one feature can be meant', () => {
    const image = { dtype: 'video', shape: [3, 480, 640], names: ['channels', 'height', 'width'] }
    const features = { ...dataset().features, 'observation.images.front': image, 'observation.images.wrist': image }
    const known: Lock = { ...lock, datasets: { 'data/metaworld': dataset({ features }) } }
    const cameras = (declaration: Declaration, from = known): unknown =>
      planOf(declaration, from).plan.pipeline.datasets[0]?.cameras
    expect(cameras(small)).toEqual({ front: 'observation.images.front' })
    expect(cameras(composedOf({ cameras: ['front', 'hand', 'wrist'] }))).toEqual({
      front: 'observation.images.front',
      wrist: 'observation.images.wrist',
    })
    expect(
      cameras(changed(composedOf({ cameras: ['front', 'hand'] }), { cameras: { hand: 'observation.images.wrist' } })),
    ).toEqual({ front: 'observation.images.front', hand: 'observation.images.wrist' })
    expect(cameras(small, lock)).toEqual({ front: 'observation.image' })
    expect(cameras(composedOf({ cameras: ['front', 'wrist'] }), lock)).toEqual({})
    expect(resolve(small, undefined).plan?.pipeline.datasets[0]?.cameras).toEqual({})
    expect(planOf(small, known).plan.pipeline.datasets[0]).toMatchObject({
      video: true,
      cameraSizes: { 'observation.image': [64, 48], 'observation.images.front': [480, 640] },
    })
  })

  it('takes the cameras of the entry before those of the pipeline', () => {
    const entry = { from: lerobotDataset({ root: 'data/metaworld' }), weight: 3, cameras: { front: 'a' } }
    const other = { from: lerobotDataset({ repo: 'org/metaworld', name: 'b' }), weight: 1 }
    const { plan } = planOf(changed(small, { data: [entry, other], cameras: { front: 'shared' } }))
    expect(plan.pipeline.datasets.map(({ name, weight, cameras }) => [name, weight, cameras])).toEqual([
      ['metaworld', 3, { front: 'a' }],
      ['b', 1, { front: 'shared' }],
    ])
    expect(noteAt(plan, '/datasets/0/cameras/front')?.path).toEqual(['data', 0, 'cameras', 'front'])
    expect(noteAt(plan, '/datasets/1/cameras/front')?.path).toEqual(['cameras', 'front'])
  })

  it('gives datasets of the same name names of their own', () => {
    const entry = (root: string) => ({ from: lerobotDataset({ root }), weight: 1 })
    const { plan } = planOf(changed(small, { data: [entry('a/arm'), entry('b/arm/'), entry('./c')] }))
    expect(plan.pipeline.datasets.map(({ name }) => name)).toEqual(['arm', 'arm-2', 'c'])
  })

  it('holds out the last episodes of a share', () => {
    const holdout = (options: Parameters<typeof lerobotDataset>[0]): unknown =>
      planOf(changed(small, { data: lerobotDataset({ root: 'data/metaworld', ...options }) })).plan.pipeline.datasets[0]
        ?.holdout
    expect(holdout({ holdout: '5%' })).toEqual([19])
    expect(holdout({ holdout: '1%' })).toEqual([19])
    expect(holdout({ holdout: '0%' })).toEqual([])
    expect(holdout({ holdout: '15%' })).toEqual([17, 18, 19])
    expect(holdout({ holdout: '50%', episodes: [3, 1, 7, 5] })).toEqual([7, 5])
    expect(holdout({ holdout: [2, 0] })).toEqual([2, 0])
    expect(holdout({})).toEqual([])
    const open = resolve(
      changed(small, { data: lerobotDataset({ root: 'data/metaworld', holdout: '5%' }) }),
      undefined,
    ).plan
    expect(openBecause(open?.pipeline.datasets[0]?.holdout)).toContain('VLA020')
    expect(open?.pipeline.training.validateEvery).toBe(30)
  })
})

describe('modules', () => {
  const freezeOf = (freeze: NonNullable<NonNullable<Declaration['modules']>[string]['freeze']>) =>
    moduleOf(planOf(changed(small, { modules: { vision: { freeze } } })).plan, 'vision')

  it('turns freeze schedules into phases', () => {
    expect(freezeOf('never').freeze).toEqual([{ from: 0, trains: 'all', rewarm: 0 }])
    expect(freezeOf('always')).toMatchObject({ freeze: [{ from: 0, trains: 'none', rewarm: 0 }], lr: null })
    expect(freezeOf(until('75%', { rewarm: '5%' }))).toMatchObject({
      freeze: [
        { from: 0, trains: 'none', rewarm: 0 },
        { from: 450, trains: 'all', rewarm: 30 },
      ],
      lr: 1e-3,
    })
    expect(freezeOf(until('0.01%', { thenTrain: lastLayers(2) })).freeze).toEqual([
      { from: 0, trains: { lastLayers: 2 }, rewarm: 0 },
    ])
    expect(
      freezeOf([
        phase({ from: 0, train: lastLayers(1) }),
        phase({ from: '50%', train: 'none' }),
        phase({ from: 500, train: 'all', rewarm: 10 }),
      ]).freeze,
    ).toEqual([
      { from: 0, trains: { lastLayers: 1 }, rewarm: 0 },
      { from: 300, trains: 'none', rewarm: 0 },
      { from: 500, trains: 'all', rewarm: 10 },
    ])
    // A phase that begins after the last update never trains.
    expect(freezeOf(until(600)).lr).toBeNull()
    expect(freezeOf(until(599)).lr).toBe(1e-3)
  })

  it('says the schedule in words', () => {
    const { notes } = planOf(bridge).plan
    expect(notes['/modules/0/freeze']).toEqual({
      path: ['modules', 'vision', 'freeze'],
      from: 'derived',
      reason: '75% of 50,000 updates: frozen, from update 37,500 on the last 6 blocks train.',
    })
  })

  it('leaves the learning rate open where nothing gives one', () => {
    const training = { updates: 600, globalBatch: 64, microBatch: 32 }
    const { plan } = planOf(
      changed(small, { training, modules: { vision: { lr: 5e-4 }, projector: { freeze: 'always' } } }),
    )
    expect(plan.pipeline.modules.map(({ lr }) => lr)).toEqual([
      5e-4,
      null,
      { unknown: true, because: 'VLA210' },
      { unknown: true, because: 'VLA210' },
    ])
  })

  it('chooses dtypes by the hardware', () => {
    const dtypes = (hardware: Declaration['hardware'], modules = {}) =>
      moduleOf(planOf(changed(small, { hardware, modules })).plan, 'language')
    expect(dtypes(gpus('H100-SXM-80GB'))).toMatchObject({ dtype: 'bf16', storage: 'fp32' })
    expect(dtypes(gpus('V100-SXM2-32GB'))).toMatchObject({ dtype: 'fp32', storage: 'fp32' })
    expect(dtypes(cpus({ processes: 1 }))).toMatchObject({ dtype: 'fp32', storage: 'fp32' })
    expect(dtypes(cpus({ processes: 1 }), { language: { dtype: 'fp64' } })).toMatchObject({
      dtype: 'fp64',
      storage: 'fp64',
    })
    expect(dtypes(gpus('H100-SXM-80GB'), { language: { freeze: 'always' } })).toMatchObject({
      dtype: 'bf16',
      storage: 'bf16',
    })
  })
})

describe('the run', () => {
  const pipelineOf = (changes: Partial<Declaration>): Pipeline => planOf(changed(small, changes)).plan.pipeline

  it('derives accumulation, or leaves it open', () => {
    const accumulation = (globalBatch: number, microBatch: number): unknown =>
      pipelineOf({ training: { ...small.training, globalBatch, microBatch } }).training.accumulation
    expect(accumulation(64, 32)).toBe(1)
    expect(accumulation(96, 4)).toBe(12)
    expect(accumulation(65, 32)).toEqual({ unknown: true, because: 'VLA201' })
    expect(accumulation(32, 32)).toEqual({ unknown: true, because: 'VLA201' })
  })

  it('has documented defaults', () => {
    const { pipeline, notes } = planOf(small).plan
    expect(pipeline).toMatchObject({
      normalize: {
        state: 'meanStd',
        action: 'minMax',
        constant: 'refuse',
        actionMask: [true, true, true, true],
        clip: false,
      },
      augment: null,
      loader: { workers: 0 },
      hardware: { kind: 'cpus', processes: 2, nodes: 1 },
      parallel: { kind: 'fsdp2', shard: 'full', world: 2 },
      training: {
        optimizer: { kind: 'adamw', betas: [0.9, 0.999], eps: 1e-8, decayBiasAndNorm: false },
        schedule: { kind: 'constant', warmup: 0 },
        clip: 1,
        seed: 0,
        skipNonFinite: 10,
        validateEvery: 0,
      },
      checkpoint: { every: 60, keep: 3 },
      track: [{ kind: 'jsonl' }],
      evaluate: null,
      exports: [],
      launch: [{ kind: 'torchrun' }],
      suppressed: [],
    })
    for (const pointer of [
      '/parallel/shard',
      '/training/clip',
      '/checkpoint/every',
      '/modules/0/dtype',
      '/normalize/action',
    ]) {
      expect(notes[pointer]).toMatchObject({ from: 'default' })
    }
  })

  it('keeps what is declared', () => {
    expect(
      pipelineOf({
        data: lerobotDataset({ root: 'data/metaworld', holdout: [1] }),
        normalize: { action: 'quantiles', constant: 'zero', actionMask: [true, false, true, true] },
        augment: imageAugmentation({ crop: 0.9, hue: 0.05 }),
        loader: { workers: 3 },
        hardware: gpus('H100-SXM-80GB', { perNode: 8, nodes: 2, hostMemory: gib(512), network: 'ib-400' }),
        parallel: ddp(),
        training: {
          updates: 1_000,
          globalBatch: 128,
          microBatch: 8,
          lr: 1,
          clip: 'none',
          schedule: linearDecay({ warmup: '1%', floor: 0.1 }),
        },
        checkpoint: { every: '20%' },
        track: [wandb({ project: 'p' }), jsonl(), tensorboard()],
        evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'] }),
        export: [lerobot()],
        launch: [slurm({ partition: 'gpu', time: '1:00:00' })],
        rules: { VLA302: off('b'), VLA101: off('a') },
      }),
    ).toMatchObject({
      normalize: {
        state: 'meanStd',
        action: 'quantiles',
        constant: 'zero',
        actionMask: [true, false, true, true],
        clip: true,
      },
      augment: { crop: 0.9, brightness: 0, contrast: 0, saturation: 0, hue: 0.05 },
      loader: { workers: 3 },
      hardware: {
        kind: 'gpus',
        gpu: 'H100-SXM-80GB',
        perNode: 8,
        nodes: 2,
        memoryBytes: 80 * 2 ** 30,
        hostMemoryBytes: 512 * 2 ** 30,
        network: 'ib-400',
      },
      parallel: { kind: 'ddp', world: 16 },
      training: {
        accumulation: 1,
        clip: null,
        schedule: { kind: 'linear', warmup: 10, floor: 0.1 },
        validateEvery: 50,
      },
      checkpoint: { every: 200, keep: 3 },
      track: [{ kind: 'wandb', project: 'p', entity: null }, { kind: 'jsonl' }, { kind: 'tensorboard' }],
      evaluate: {
        env: 'metaworld',
        tasks: ['reach-v3'],
        episodes: 20,
        maxSteps: 500,
        imageSize: 480,
        firstSeed: 10_000,
        actionSteps: 8,
      },
      exports: [{ kind: 'lerobot', dtype: 'fp32' }],
      launch: [{ kind: 'slurm', partition: 'gpu', time: '1:00:00', account: null, requeue: true, setup: [] }],
      suppressed: [
        { rule: 'VLA101', reason: 'a' },
        { rule: 'VLA302', reason: 'b' },
      ],
    })
    expect(
      pipelineOf({ training: { ...small.training, schedule: constant({ warmup: 5 }) } }).training.schedule,
    ).toEqual({ kind: 'constant', warmup: 5 })
  })
})

describe('a declaration with errors', () => {
  it('still gives a plan, whose broken nodes are unknown and name the finding', () => {
    const broken = {
      ...small,
      modules: { vision: { lr: 'fast', dtype: 'bf16' } },
      loader: { workers: -1 },
      hardware: gpus('H100' as 'H100-SXM-80GB', { perNode: 2 }),
      cameras: 7,
    }
    const { plan } = planOf(broken)
    expect(plan.pipeline.modules[0]).toMatchObject({
      lr: { unknown: true, because: 'VLA003' },
      dtype: 'bf16',
      count: 32_280,
    })
    expect(plan.pipeline.loader.workers).toEqual({ unknown: true, because: 'VLA003' })
    expect(plan.pipeline.hardware).toMatchObject({ gpu: 'H100', memoryBytes: { unknown: true, because: 'VLA005' } })
    expect(plan.pipeline.datasets[0]?.cameras).toEqual({ unknown: true, because: 'VLA003' })
    expect(plan.pipeline.training.accumulation).toBe(1)
    expect(plan.notes['/loader/workers']?.reason).toBe('Could not be read (VLA003).')
  })

  it('gives no plan where nothing can be read', () => {
    expect(resolve(undefined, lock)).toEqual({ plan: undefined, findings: [] })
  })
})
