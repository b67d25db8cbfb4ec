/** The model of the Plan: architecture, sizes, prompt. */
import { causalLM } from '../catalog/language.ts'
import { openvla as openvlaFacts, openvlaRegression } from '../catalog/openvla.ts'
import { timmTower } from '../catalog/timm.ts'
import { transformersTower } from '../catalog/transformers-vision.ts'
import type {
  Action,
  ComposedModel,
  JointFlowOptions,
  Language,
  OpenvlaModel,
  TimmVision,
  Tower,
  TransformersVision,
} from '../declare/model.ts'
import type { DeclarationPath } from '../finding/finding.ts'
import { weightsKey } from '../lock/declared.ts'
import type { Lock, WeightsEntry } from '../lock/lock.ts'
import { isKnown, type ComposedPlanModel, type PlanDataset, type PlanTower, type Unknown } from '../plan/plan.ts'
import { commonWidth } from './data.ts'
import { byDefault, derived, unknown, type Choice, type Notebook } from './notebook.ts'
import { below } from './below.ts'

type PlanLanguage = ComposedPlanModel['language']
type PlanAction = ComposedPlanModel['action']
type Config = Readonly<Record<string, unknown>>

const published = <T>(value: T, reason: string): Choice<T> => ({ value, from: 'recipe', reason })

/** Rows of the embedding of a byte-level model: 256 bytes, three special tokens, padded to a multiple of 64. */
const byteRows = 320
/** `</s>` of the byte-level tokenizer. */
const byteStop = 257

/** The lock's entry for weights, or undefined. */
export function lockedWeights(
  lock: Lock | undefined,
  source: string,
  revision: string | undefined,
): WeightsEntry | undefined {
  const key = weightsKey(source, revision)
  return lock !== undefined && Object.hasOwn(lock.weights, key) ? lock.weights[key] : undefined
}

/** OpenVLA: everything from the catalog, but for the decoder and where the weights lie. */
export function resolveOpenvla(
  model: OpenvlaModel,
  datasets: readonly PlanDataset[],
  book: Notebook,
): ComposedPlanModel {
  const facts = openvlaFacts
  const actionDim = commonWidth(datasets, 'actionDim')
  const say = (field: string, reason: string): void => {
    book.note(['model', field], ['model'], 'catalog', reason)
  }
  book.note(['model', 'family'], ['model'], 'declared', 'As declared.')
  book.note(['model', 'weights'], ['model', 'weights'], 'declared', 'As declared.')
  noteActionDim(actionDim, book)
  say('cameras', "OpenVLA's only camera slot.")
  say('vision', 'OpenVLA: DINOv2 and SigLIP, fused on channels, each without its last block.')
  say('projector', 'OpenVLA: d -> 4d -> h -> h.')
  say('language', 'OpenVLA: Llama 2 7B with one padding token.')
  say('prompt', "OpenVLA's prompt.")
  say('promptLower', 'OpenVLA puts instructions into lower case.')
  say('promptTrailingToken', 'The lone space that precedes the actions in training.')
  book.note(['model', 'stateDim'], ['model'], 'catalog', 'OpenVLA reads no proprioception.')
  book.note(['model', 'promptTokens'], ['model'], 'default', "OpenVLA's prompts have 20 to 30 tokens.")
  const action = openvlaAction(model, actionDim, book)
  const regression = action.decoder === 'regression'
  say('mask', regression ? 'OpenVLA-OFT decodes in parallel: every token sees every token.' : 'OpenVLA is causal.')
  return {
    family: 'openvla',
    cameras: [...facts.cameras],
    vision: {
      towers: facts.vision.towers.map(({ name, imageSize, layer }) => openvlaTower(name, imageSize, layer)),
      fuse: facts.vision.fuse,
    },
    projector: { kind: facts.projector.kind },
    language: {
      source: 'pretrained',
      name: model.weights,
      revision: model.revision ?? null,
      config: { ...facts.language.config },
      tokenizer: 'pretrained',
      spareTokens: 0,
      hidden: facts.language.config.hidden_size,
      layers: facts.language.config.num_hidden_layers,
      heads: facts.language.config.num_attention_heads,
      vocab: facts.language.config.vocab_size,
    },
    action,
    mask: regression ? openvlaRegression.mask : facts.mask,
    prompt: facts.prompt,
    promptTokens: 64,
    promptLower: facts.promptLower,
    promptTrailingToken: facts.promptTrailingToken,
    stateDim: 0,
    actionDim,
    weights: { source: model.weights, revision: model.revision ?? null, layout: 'openvla' },
  }
}

function openvlaTower(name: string, imageSize: number, layer: number): PlanTower {
  const facts = timmTower(name, { imageSize, layer })
  if ('problem' in facts) throw new Error(`the catalog does not describe OpenVLA's own tower: ${facts.message}`)
  return {
    source: 'timm',
    name,
    revision: null,
    weights: null,
    imageSize,
    output: facts.output,
    layer,
    norm: 'native',
    mean: [...facts.mean],
    std: [...facts.std],
    options: {},
    width: facts.width,
    tokens: facts.tokens,
  }
}

function openvlaAction(model: OpenvlaModel, actionDim: ComposedPlanModel['actionDim'], book: Notebook): PlanAction {
  const { action } = model
  const place = ['model', 'action']
  const path = ['model', 'action']
  const at = below(book, place, path)
  book.note(
    [...place, 'decoder'],
    path,
    action === undefined ? 'recipe' : 'declared',
    action === undefined ? 'OpenVLA decodes action tokens.' : 'As declared.',
  )
  if (action?.kind !== 'regression') {
    book.note([...place, 'vocabulary'], ['model'], 'catalog', "Llama 2's vocabulary, without the rows that pad it.")
    book.note([...place, 'stopToken'], ['model'], 'catalog', "Llama 2's `</s>`.")
    return {
      decoder: 'tokens',
      bins: at.choose('bins', action?.bins, () => published(openvlaFacts.action.bins, 'OpenVLA: 256 bins.')),
      chunk: book.choose(
        [...place, 'chunk'],
        action?.chunk === undefined ? ['model', 'chunk'] : [...path, 'chunk'],
        action?.chunk ?? model.chunk,
        () => published(openvlaFacts.action.chunk, 'OpenVLA: one action at a time.'),
      ),
      vocabulary: openvlaFacts.language.actionVocabulary,
      stopToken: openvlaFacts.language.stopToken,
    }
  }
  at.declared('chunk')
  book.note([...place, 'queries'], path, 'recipe', 'OpenVLA-OFT: the embeddings of the action slots are zero.')
  book.note([...place, 'slots'], path, 'recipe', 'OpenVLA-OFT: one slot per action dimension.')
  return {
    decoder: 'regression',
    chunk: action.chunk,
    hidden: at.choose('hidden', action.hidden, () =>
      published(openvlaRegression.hidden, 'OpenVLA-OFT: the width of the trunk.'),
    ),
    blocks: at.choose('blocks', action.blocks, () =>
      published(openvlaRegression.blocks, 'OpenVLA-OFT: two residual blocks.'),
    ),
    queries: openvlaRegression.queries,
    slots: isKnown(actionDim) ? actionDim : unknown(actionDim.because),
  }
}

/** An own VLA. */
export function resolveComposed(
  model: ComposedModel,
  datasets: readonly PlanDataset[],
  lock: Lock | undefined,
  book: Notebook,
): ComposedPlanModel {
  const at = below(book, ['model'], ['model'])
  book.note(['model', 'family'], ['model'], 'declared', 'As declared.')
  for (const field of ['cameras', 'projector']) at.declared(field)
  const language = resolveLanguage(model.language, model.action, lock, book)
  const action = composedAction(model.action, language, book)
  const actionDim = commonWidth(datasets, 'actionDim')
  noteActionDim(actionDim, book)
  const stateDim = model.state === true ? commonWidth(datasets, 'stateDim') : 0
  if (model.state === true)
    book.note(
      ['model', 'stateDim'],
      ['model', 'state'],
      isKnown(stateDim) ? 'lock' : 'derived',
      'Width of the proprioception in the data.',
    )
  else
    book.note(
      ['model', 'stateDim'],
      ['model', 'state'],
      model.state === undefined ? 'default' : 'declared',
      'No proprioception.',
    )
  const masks = { tokens: 'causal', regression: 'full', flowMatching: 'prefix' } as const
  const maskReasons = {
    tokens: 'Each action token may see only those before it.',
    regression: 'Parallel decoding: every token sees every token.',
    flowMatching: 'The observation sees all of itself.',
  }
  if (model.weights === undefined)
    book.note(['model', 'weights'], ['model', 'weights'], 'default', 'Each part says where it comes from.')
  else at.declared('weights')
  book.note(['model', 'promptLower'], ['model', 'prompt'], 'default', 'Instructions are taken as they stand.')
  book.note(['model', 'promptTrailingToken'], ['model', 'prompt'], 'default', 'Nothing follows the prompt.')
  return {
    family: 'composed',
    cameras: [...model.cameras],
    vision: resolveVision(model, lock, book),
    projector: { ...model.projector },
    language,
    action,
    mask: at.choose('mask', model.mask, () => byDefault(masks[action.decoder], maskReasons[action.decoder])),
    prompt: at.choose<string>('prompt', model.prompt, () => byDefault(openvlaFacts.prompt, "OpenVLA's prompt.")),
    promptTokens: at.choose('promptTokens', model.promptTokens, () =>
      language.tokenizer === 'bytes'
        ? byDefault(128, 'One token per byte.')
        : byDefault(64, 'Twice the length of common instructions.'),
    ),
    promptLower: false,
    promptTrailingToken: null,
    stateDim,
    actionDim,
    weights: model.weights === undefined ? null : { source: model.weights, revision: null, layout: 'composed' },
  }
}

export function noteActionDim(actionDim: ComposedPlanModel['actionDim'], book: Notebook): void {
  book.note(
    ['model', 'actionDim'],
    ['data'],
    isKnown(actionDim) ? 'lock' : 'derived',
    isKnown(actionDim) ? 'Width of the actions in the data.' : 'Not known without the data.',
  )
}

function resolveVision(model: ComposedModel, lock: Lock | undefined, book: Notebook): ComposedPlanModel['vision'] {
  const { vision } = model
  const towers = vision.kind === 'fused' ? vision.towers : [vision]
  const resolved = towers.map((tower, index) => {
    const path: DeclarationPath = vision.kind === 'fused' ? ['model', 'vision', 'towers', index] : ['model', 'vision']
    return resolveTower(tower, index, path, model, lock, book)
  })
  const fuse = book.choose(
    ['model', 'vision', 'fuse'],
    ['model', 'vision', 'on'],
    vision.kind === 'fused' ? vision.on : undefined,
    () =>
      towers.length > 1
        ? byDefault('channels' as const, 'As Prismatic fuses its towers.')
        : byDefault('channels' as const, 'There is one tower.'),
  )
  return { towers: resolved, fuse }
}

function resolveTower(
  tower: Tower,
  index: number,
  path: DeclarationPath,
  model: ComposedModel,
  lock: Lock | undefined,
  book: Notebook,
): PlanTower {
  const place = ['model', 'vision', 'towers', index]
  book.note(place, path, 'declared', 'As declared.')
  return tower.kind === 'timm'
    ? resolveTimm(tower, place, path, model, lock, book)
    : resolveTransformers(tower, place, path, lock, book)
}

function resolveTimm(
  tower: TimmVision,
  place: readonly (string | number)[],
  path: DeclarationPath,
  model: ComposedModel,
  lock: Lock | undefined,
  book: Notebook,
): PlanTower {
  const at = below(book, place, path)
  const found = timmTower(tower.name, { imageSize: tower.imageSize, output: tower.output, layer: tower.layer })
  const facts = 'problem' in found ? undefined : found
  const locked = tower.weights === undefined ? undefined : lockedWeights(lock, tower.weights, undefined)
  const options = tower.options ?? {}
  const catalog = <T>(value: T): Choice<T> => ({ value, from: 'catalog', reason: `timm's ${tower.name}.` })
  const lacking = 'problem' in found ? found.message : ''
  const map = model.projector.kind === 'spatialSoftArgmax'
  const output = at.choose('output', tower.output, () =>
    facts !== undefined
      ? catalog(facts.output)
      : byDefault(map ? 'map' : 'tokens', `${lacking} The projector reads ${map ? 'a map' : 'tokens'}.`),
  )
  const size = (value: number | undefined): number | Unknown => {
    if (value === undefined) return unknown(lacking)
    // Options of timm's constructor can change any size.
    return Object.keys(options).length > 0 ? unknown(`the options of ${tower.name} can change its sizes`) : value
  }
  const sizes = { width: size(facts?.width), tokens: size(facts?.tokens) }
  for (const [field, value] of Object.entries(sizes)) {
    book.note(
      [...place, field],
      path,
      'catalog',
      isKnown(value) ? `timm's ${tower.name}.` : `Not known: ${value.because}`,
    )
  }
  const pixels = pixelStatistics(locked, facts)
  for (const field of ['mean', 'std']) book.note([...place, field], path, pixels.from, pixels.reason)
  return {
    source: 'timm',
    name: tower.name,
    revision: null,
    weights: at.choose<string | null>('weights', tower.weights, () => byDefault(null, 'Initialised from the seed.')),
    imageSize: at.choose('imageSize', tower.imageSize, () =>
      facts !== undefined ? catalog(facts.imageSize) : byDefault(224, `${lacking} The commonest size.`),
    ),
    output,
    layer: at.choose('layer', tower.layer, () => {
      if (output === 'tokens') return byDefault(-2, 'The last block but one, as Prismatic.')
      return facts !== undefined ? derived(facts.layer, 'The last stage.') : byDefault(-1, 'The last stage.')
    }),
    norm: at.choose('norm', tower.norm, () => byDefault('native', "The architecture's own.")),
    mean: pixels.mean,
    std: pixels.std,
    options: { ...options } as PlanTower['options'],
    ...sizes,
  }
}

function resolveTransformers(
  tower: TransformersVision,
  place: readonly (string | number)[],
  path: DeclarationPath,
  lock: Lock | undefined,
  book: Notebook,
): PlanTower {
  const at = below(book, place, path)
  const locked = lockedWeights(lock, tower.source, tower.revision)
  const config = locked?.config ?? undefined
  const half = vision(config)
  const imageSize = at.choose('imageSize', tower.imageSize, () =>
    typeof half?.['image_size'] === 'number' && Number.isSafeInteger(half['image_size']) && half['image_size'] > 0
      ? { value: half['image_size'], from: 'lock', reason: `${tower.source}'s config.` }
      : byDefault(224, 'The commonest size; the config was not looked at.'),
  )
  const layer = at.choose('layer', tower.layer, () => byDefault(-1, 'The last block.'))
  const facts = config === undefined ? undefined : transformersTower(config, { imageSize, layer })
  const because =
    config === undefined
      ? `VLA024: vla.lock.json has no config of '${tower.source}'`
      : `the catalog does not describe '${String(half?.['model_type'])}'`
  const pixels = pixelStatistics(locked, undefined)
  for (const field of ['mean', 'std']) book.note([...place, field], path, pixels.from, pixels.reason)
  for (const field of ['width', 'tokens'])
    book.note(
      [...place, field],
      path,
      'lock',
      facts === undefined ? `Not known: ${because}.` : `${tower.source}'s config.`,
    )
  return {
    source: 'transformers',
    name: tower.source,
    revision: at.choose<string | null>('revision', tower.revision, () => byDefault(null, 'Not declared.')),
    weights: tower.source,
    imageSize,
    output: 'tokens',
    layer,
    norm: 'native',
    mean: pixels.mean,
    std: pixels.std,
    options: {},
    config: half === undefined ? unknown(because) : (half as Record<string, never>),
    width: facts?.width ?? unknown(because),
    tokens: facts?.tokens ?? unknown(because),
  }
}

/** The vision half of a two-tower config, or the config itself. */
function vision(config: Config | undefined): Config | undefined {
  const half = config?.['vision_config']
  return typeof half === 'object' && half !== null ? (half as Config) : config
}

function pixelStatistics(
  locked: WeightsEntry | undefined,
  facts: { readonly mean: readonly number[]; readonly std: readonly number[] } | undefined,
): { mean: number[]; std: number[]; from: Exclude<Choice<0>['from'], 'recipe'>; reason: string } {
  const image = locked?.image
  // A preprocessor for pictures of one channel has one value each: no statistics of colours.
  if (image !== undefined && image !== null && image.mean.length === 3 && image.std.length === 3)
    return { mean: [...image.mean], std: [...image.std], from: 'lock', reason: "The weights' own." }
  if (facts !== undefined)
    return {
      mean: [...facts.mean],
      std: [...facts.std],
      from: 'catalog',
      reason: 'What the architecture was trained with.',
    }
  return {
    mean: [0.485, 0.456, 0.406],
    std: [0.229, 0.224, 0.225],
    from: 'default',
    reason: "ImageNet's; neither catalog nor lock knows the tower's own.",
  }
}

function resolveLanguage(language: Language, action: Action, lock: Lock | undefined, book: Notebook): PlanLanguage {
  const place = ['model', 'language']
  const path = ['model', 'language']
  book.note(place, path, 'declared', 'As declared.')
  const head = action.kind === 'tokens'
  const spareTokens = action.kind === 'tokens' ? (action.bins ?? 256) : 0
  book.note(
    [...place, 'spareTokens'],
    ['model', 'action'],
    'derived',
    head ? 'One new token per bin: the last entries of the vocabulary may be in use.' : 'The decoder needs no tokens.',
  )
  if ('config' in language) {
    const rows = typeof language.config['vocab_size'] === 'number' ? language.config['vocab_size'] : byteRows
    book.note([...place, 'config'], [...path, 'config'], 'declared', 'As declared.')
    book.note(
      [...place, 'tokenizer'],
      [...path, 'tokenizer'],
      language.tokenizer === undefined ? 'default' : 'declared',
      'Any text, no download.',
    )
    if (language.config['vocab_size'] === undefined) {
      book.note(
        [...place, 'config', 'vocab_size'],
        [...path, 'config'],
        'default',
        '256 bytes and three special tokens, padded to a multiple of 64.',
      )
    }
    const config = { ...language.config, vocab_size: rows } as Config
    return {
      source: 'config',
      name: null,
      revision: null,
      config: config as Record<string, never>,
      tokenizer: 'bytes',
      spareTokens,
      ...languageSizes(config, head, spareTokens, '', book),
    }
  }
  const { source, revision } = language
  const locked = lockedWeights(lock, source, revision)
  const because = `VLA024: vla.lock.json has no config of '${source}'`
  const config = text(locked?.config ?? undefined)
  book.note(
    [...place, 'config'],
    [...path, 'source'],
    'lock',
    config === undefined ? `Not known: ${because}.` : `${source}'s config.json.`,
  )
  return {
    source: 'pretrained',
    name: source,
    revision: revision ?? null,
    config: config === undefined ? unknown(because) : (config as Record<string, never>),
    tokenizer: 'pretrained',
    spareTokens,
    ...languageSizes(config, head, spareTokens, because, book),
  }
}

/** The language half of a multimodal config, or the config itself. */
function text(config: Config | undefined): Config | undefined {
  const half = config?.['text_config']
  return typeof half === 'object' && half !== null ? (half as Config) : config
}

/** From the catalog where it knows the family, else from the names that nearly every config uses. */
function languageSizes(
  config: Config | undefined,
  head: boolean,
  spareTokens: number,
  because: string,
  book: Notebook,
): Pick<PlanLanguage, 'hidden' | 'layers' | 'heads' | 'vocab'> {
  const facts = config === undefined ? undefined : causalLM(config, { head })
  const size = (known: number | undefined, key: string): number | Unknown => {
    const value = known ?? config?.[key]
    if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value
    return unknown(config === undefined ? because : `the config has no ${key}`)
  }
  const rows = size(facts?.vocab, 'vocab_size')
  const sizes = {
    hidden: size(facts?.hidden, 'hidden_size'),
    layers: size(facts?.layers, 'num_hidden_layers'),
    heads: size(facts?.heads, 'num_attention_heads'),
    vocab: isKnown(rows) ? rows + spareTokens : rows,
  }
  for (const [field, value] of Object.entries(sizes)) {
    const reason = isKnown(value) ? "The model's config." : `Not known: ${value.because}.`
    book.note(
      ['model', 'language', field],
      ['model', 'language'],
      'derived',
      field === 'vocab' && spareTokens > 0 && isKnown(value) ? "The model's config, and one row per bin." : reason,
    )
  }
  return sizes
}

function composedAction(action: Action, language: PlanLanguage, book: Notebook): PlanAction {
  const place = ['model', 'action']
  const at = below(book, place, place)
  at.declared('decoder')
  switch (action.kind) {
    case 'tokens': {
      book.note([...place, 'vocabulary'], place, 'derived', 'The bins are the last rows of the vocabulary.')
      book.note([...place, 'stopToken'], ['model', 'language'], 'derived', "The language model's end token.")
      return {
        decoder: 'tokens',
        bins: at.choose('bins', action.bins, () => byDefault(256, 'OpenVLA: 256 bins.')),
        chunk: at.choose('chunk', action.chunk, () => byDefault(1, 'One action at a time.')),
        vocabulary: language.vocab,
        stopToken: stopToken(language),
      }
    }
    case 'regression':
      at.declared('chunk')
      book.note([...place, 'queries'], place, 'default', 'Each slot learns its embedding.')
      book.note([...place, 'slots'], place, 'default', 'One slot per action.')
      return {
        decoder: 'regression',
        chunk: action.chunk,
        hidden: at.choose<number | Unknown>('hidden', action.hidden, () =>
          derived(language.hidden, 'The width of the trunk.'),
        ),
        blocks: at.choose('blocks', action.blocks, () => byDefault(2, 'As OpenVLA-OFT.')),
        queries: 'learnable',
        slots: 1,
      }
    case 'flowMatching': {
      for (const field of ['chunk', 'hidden']) at.declared(field)
      for (const field of ['timeAlpha', 'timeBeta'])
        book.note([...place, field], place, 'default', 'openpi: t ~ Beta(1.5, 1).')
      const flow = {
        steps: at.choose('steps', action.steps, () => byDefault(10, 'openpi: ten Euler steps.')),
        timeAlpha: 1.5,
        timeBeta: 1,
      }
      if (action.attention === 'joint') return jointAction(action, language, flow, book)
      at.declared('layers')
      return {
        decoder: 'flowMatching',
        attention: at.choose('attention', action.attention, () =>
          byDefault('cross', "The actions attend to the trunk's last hidden states."),
        ),
        chunk: action.chunk,
        hidden: action.hidden,
        layers: action.layers,
        heads: at.choose('heads', action.heads, () =>
          byDefault(headsFor(action.hidden), 'Heads of 64 channels or, where they do not divide, more.'),
        ),
        ...flow,
      }
    }
  }
}

/** An action expert beside the trunk: widths of its own, everything that its keys must share with the trunk's from there. */
function jointAction(
  action: JointFlowOptions,
  language: PlanLanguage,
  flow: { readonly steps: number; readonly timeAlpha: number; readonly timeBeta: number },
  book: Notebook,
): PlanAction {
  const place = ['model', 'action']
  const at = below(book, place, place)
  at.declared('attention')
  const facts = isKnown(language.config) ? causalLM(language.config, { head: false }) : undefined
  const shared = (value: number | undefined): number | Unknown =>
    value ?? (isKnown(language.hidden) ? unknown('the catalog does not describe the language model') : language.hidden)
  const asTrunk = (value: number | Unknown): Choice<number | Unknown> =>
    derived(value, isKnown(value) ? "The trunk's: both meet in one attention." : `Not known: ${value.because}.`)
  return {
    decoder: 'flowMatching',
    attention: 'joint',
    chunk: action.chunk,
    hidden: action.hidden,
    mlp: at.choose('mlp', action.mlp, () => byDefault(4 * action.hidden, 'Four times the width, as pi0.')),
    layers: at.choose<number | Unknown>('layers', action.layers, () => asTrunk(language.layers)),
    heads: at.choose<number | Unknown>('heads', action.heads, () => asTrunk(language.heads)),
    keyValueHeads: at.take('keyValueHeads', asTrunk(shared(facts?.keyValueHeads))),
    headDim: at.take('headDim', asTrunk(shared(facts?.headDim))),
    ...flow,
  }
}

function stopToken(language: PlanLanguage): number | Unknown {
  if (language.tokenizer === 'bytes') return byteStop
  if (!isKnown(language.config)) return unknown(`the config of '${language.name ?? ''}' is not known`)
  const eos = (language.config as Config)['eos_token_id']
  const first: unknown = Array.isArray(eos) ? eos[0] : eos
  return typeof first === 'number' && Number.isSafeInteger(first) && first >= 0
    ? first
    : unknown('the config names no end token')
}

/** The most heads of at least 64 channels that divide the width. */
function headsFor(hidden: number): number {
  let heads = Math.max(1, Math.floor(hidden / 64))
  while (hidden % heads !== 0) heads--
  return heads
}
