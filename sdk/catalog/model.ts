/**
 * The modules of a whole model as the runtime builds it (`vla_runtime/modeling`): which parameters each holds, which of them are dead,
 * what its repeated blocks are. Names and shapes are held equal to the real classes by a test.
 */
import { causalLM, jointExpert } from './language.ts'
import { below, convLayer, linearLayer, normLayer, tensor, type Parameter } from './parameters.ts'
import { timmTower } from './timm.ts'
import { transformersTower } from './transformers-vision.ts'

/** A value, or that it is not known. */
type Maybe<T> = T | undefined | { readonly unknown: true }

interface TowerDescription {
  readonly source: 'timm' | 'transformers'
  readonly name: string
  readonly imageSize: number
  readonly output: 'tokens' | 'map'
  readonly layer: number
  readonly options: Readonly<Record<string, unknown>>
  readonly width: Maybe<number>
  /** transformers: the vision config, as far as it was read. */
  readonly config?: Maybe<Readonly<Record<string, unknown>>>
}

/** What the parameters of a model depend on. The Plan's model node has this shape. */
export interface ModelDescription {
  readonly vision: { readonly towers: readonly TowerDescription[]; readonly fuse: 'channels' | 'sequence' }
  readonly projector:
    | { readonly kind: 'linear' | 'fusedMlp' }
    | { readonly kind: 'mlp'; readonly layers: number }
    | { readonly kind: 'spatialSoftArgmax'; readonly points: number }
  readonly language: {
    readonly config: Maybe<Readonly<Record<string, unknown>>>
    readonly hidden: Maybe<number>
    readonly layers: Maybe<number>
    readonly vocab: Maybe<number>
  }
  readonly action:
    | { readonly decoder: 'tokens' }
    | {
        readonly decoder: 'regression'
        readonly chunk: number
        readonly hidden: Maybe<number>
        readonly blocks: number
        readonly queries: 'learnable' | 'zero'
        readonly slots: Maybe<number>
      }
    | {
        readonly decoder: 'flowMatching'
        readonly attention: 'cross'
        readonly chunk: number
        readonly hidden: number
        readonly layers: number
      }
    | {
        readonly decoder: 'flowMatching'
        readonly attention: 'joint'
        readonly hidden: number
        readonly mlp: number
        readonly layers: Maybe<number>
      }
  readonly stateDim: Maybe<number>
  readonly actionDim: Maybe<number>
}

export interface ModuleFacts {
  readonly name: string
  /** fnmatch patterns over fully qualified names. The patterns of all modules partition the parameters. */
  readonly patterns: readonly string[]
  /** Patterns of parameters that never receive a gradient. */
  readonly dead: readonly string[]
  /** Patterns of repeated blocks, one per stack: sharding units, recompute units, what `lastLayers` counts. */
  readonly blocks: readonly string[]
  /** For each stack, how many blocks come before the dead ones; undefined where it is not known. */
  readonly liveBlocks: readonly (number | undefined)[]
  /** All parameters, dead ones too; undefined where the catalog does not know them. */
  readonly parameters: readonly Parameter[] | undefined
}

function known<T extends number | Readonly<Record<string, unknown>>>(value: Maybe<T>): T | undefined {
  return typeof value === 'object' && 'unknown' in value && value.unknown === true
    ? undefined
    : (value as T | undefined)
}

/** Name of a tower below `vision_backbone`, as OpenVLA names the first two. */
export function towerName(index: number): string {
  return ['featurizer', 'fused_featurizer'][index] ?? `fused_featurizer_${String(index)}`
}

/** Every part has its own patterns, so that a fused tower's facts are told apart. */
function vision({ vision: { towers } }: ModelDescription): ModuleFacts {
  const described = towers.map((tower, index) => ({
    root: `vision_backbone.${towerName(index)}`,
    ...describeTower(tower),
  }))
  const parameters = described.map(({ root, parameters: own }) => (own === undefined ? undefined : below(root, own)))
  const stacks = described.filter(({ blocks }) => blocks !== null)
  return {
    name: 'vision',
    patterns: ['vision_backbone.*'],
    dead: described.flatMap(({ root, dead }) => dead.map((pattern) => `${root}.${pattern}`)),
    blocks: stacks.map(({ root, blocks }) => `${root}.${blocks ?? ''}`),
    liveBlocks: stacks.map(({ liveBlocks }) => liveBlocks),
    parameters: parameters.every((own) => own !== undefined) ? parameters.flat() : undefined,
  }
}

interface PartFacts {
  readonly dead: readonly string[]
  readonly blocks: string | null
  readonly liveBlocks: number | undefined
  readonly parameters: readonly Parameter[] | undefined
}

const nothing: PartFacts = { dead: [], blocks: null, liveBlocks: undefined, parameters: undefined }

function describeTower(tower: TowerDescription): PartFacts {
  if (tower.source === 'transformers') {
    const config = known(tower.config)
    const facts = config === undefined ? undefined : transformersTower(config, tower)
    return facts === undefined ? nothing : { ...facts, parameters: undefined }
  }
  // Options of timm's constructor can change anything.
  if (Object.keys(tower.options).length > 0) return nothing
  const facts = timmTower(tower.name, tower)
  return 'problem' in facts ? nothing : facts
}

function projector(model: ModelDescription, width: number | undefined): ModuleFacts {
  const state = known(model.stateDim)
  const facts = { name: 'projector', dead: [], blocks: [], liveBlocks: [] } as const
  // Where it is not known whether there is a state, neither is the partition; the pattern is then left to whoever knows it.
  const without = state === 0 || isJoint(model) // a joint expert reads the state itself
  const patterns = without ? ['projector.*'] : ['projector.*', 'state_projector.*']
  const widths = model.vision.towers.map((tower) => known(tower.width))
  const channels =
    model.vision.fuse === 'channels'
      ? widths.reduce((sum, own) => (sum === undefined || own === undefined ? undefined : sum + own), 0)
      : widths[0]
  if (channels === undefined || width === undefined || state === undefined)
    return { ...facts, patterns, parameters: undefined }
  return {
    ...facts,
    patterns,
    parameters: [
      ...projectorParameters(model.projector, channels, width),
      ...(without ? [] : mlp('state_projector', [state, width, width])),
    ],
  }
}

function isJoint({ action: head }: ModelDescription): boolean {
  return head.decoder === 'flowMatching' && head.attention === 'joint'
}

function mlp(root: string, widths: readonly number[]): Parameter[] {
  return widths
    .slice(1)
    .flatMap((outputs, index) => linearLayer(`${root}.fc${String(index + 1)}`, widths[index] ?? 0, outputs))
}

function projectorParameters(config: ModelDescription['projector'], channels: number, width: number): Parameter[] {
  switch (config.kind) {
    case 'linear':
      return mlp('projector', [channels, width])
    case 'mlp':
      return mlp('projector', [channels, ...Array.from({ length: config.layers }, () => width)])
    case 'fusedMlp':
      return mlp('projector', [channels, 4 * channels, width, width])
    case 'spatialSoftArgmax':
      return [
        tensor('projector.temperature', 1),
        ...convLayer('projector.filters', channels, config.points, 1, false),
        ...linearLayer('projector.linear', 2 * config.points, width),
      ]
  }
}

function language(model: ModelDescription): ModuleFacts {
  const config = known(model.language.config)
  const facts =
    config === undefined
      ? undefined
      : causalLM(config, { head: model.action.decoder === 'tokens', vocab: known(model.language.vocab) })
  return {
    name: 'language',
    patterns: ['language_model.*'],
    dead: isJoint(model) ? (facts?.behindKeys ?? []).map((pattern) => `language_model.${pattern}`) : [],
    // Every decoder of transformers that the runtime can drive keeps its layers here; the runtime refuses a pattern that matches nothing.
    blocks: [`language_model.${facts?.blocks ?? 'model.layers.*'}`],
    liveBlocks: [facts?.layers ?? known(model.language.layers)],
    parameters: facts === undefined ? undefined : below('language_model', facts.parameters),
  }
}

function action(model: ModelDescription, width: number | undefined): ModuleFacts | undefined {
  const { action: head } = model
  if (head.decoder === 'tokens') return undefined
  const actions = known(model.actionDim)
  const facts = { name: 'action', patterns: ['action_head.*'], dead: [] } as const
  const unknown = width === undefined || actions === undefined
  if (head.decoder === 'regression') {
    const blocks = { blocks: ['action_head.model.mlp_resnet_blocks.*'], liveBlocks: [head.blocks] }
    const hidden = known(head.hidden)
    const slots = known(head.slots)
    if (unknown || hidden === undefined || slots === undefined) return { ...facts, ...blocks, parameters: undefined }
    const parameters = [
      ...(head.queries === 'learnable' ? [tensor('action_head.queries', head.chunk * slots, width)] : []),
      ...normLayer('action_head.model.layer_norm1', width * slots),
      ...linearLayer('action_head.model.fc1', width * slots, hidden),
    ]
    for (let index = 0; index < head.blocks; index++) {
      const block = `action_head.model.mlp_resnet_blocks.${String(index)}.ffn`
      parameters.push(...normLayer(`${block}.0`, hidden), ...linearLayer(`${block}.1`, hidden, hidden))
    }
    parameters.push(
      ...normLayer('action_head.model.layer_norm2', hidden),
      ...linearLayer('action_head.model.fc2', hidden, actions),
    )
    return { ...facts, ...blocks, parameters }
  }
  if (head.attention === 'joint') {
    const blocks = { blocks: ['action_head.transformer.layers.*'], liveBlocks: [known(head.layers)] }
    const config = known(model.language.config)
    const state = known(model.stateDim)
    const { hidden } = head
    const stack = config === undefined ? undefined : jointExpert(config, head)
    if (actions === undefined || state === undefined || stack === undefined)
      return { ...facts, ...blocks, parameters: undefined }
    const parameters = [
      ...below('action_head', stack),
      ...(state === 0 ? [] : linearLayer('action_head.state_in', state, hidden)),
      ...linearLayer('action_head.action_in', actions, hidden),
      ...linearLayer('action_head.time_in', 2 * hidden, hidden),
      ...linearLayer('action_head.time_out', hidden, hidden),
      ...linearLayer('action_head.action_out', hidden, actions),
    ]
    return { ...facts, ...blocks, parameters }
  }
  const blocks = { blocks: ['action_head.blocks.*'], liveBlocks: [head.layers] }
  if (unknown) return { ...facts, ...blocks, parameters: undefined }
  const { hidden } = head
  const attention = (name: string, context: number): Parameter[] => [
    ...linearLayer(`${name}.q`, hidden, hidden, false),
    ...linearLayer(`${name}.k`, context, hidden, false),
    ...linearLayer(`${name}.v`, context, hidden, false),
    ...linearLayer(`${name}.out`, hidden, hidden),
  ]
  const parameters = [
    tensor('action_head.positions', head.chunk, hidden),
    ...linearLayer('action_head.action_in', actions, hidden),
    ...linearLayer('action_head.time_in', hidden, hidden),
    ...linearLayer('action_head.time_out', hidden, hidden),
  ]
  for (let index = 0; index < head.layers; index++) {
    const block = `action_head.blocks.${String(index)}`
    parameters.push(
      ...linearLayer(`${block}.norm1.linear`, hidden, 2 * hidden),
      ...attention(`${block}.self_attention`, hidden),
      ...linearLayer(`${block}.norm2.linear`, hidden, 2 * hidden),
      ...attention(`${block}.cross_attention`, width),
      ...linearLayer(`${block}.norm3.linear`, hidden, 2 * hidden),
      ...linearLayer(`${block}.fc1`, hidden, 4 * hidden),
      ...linearLayer(`${block}.fc2`, 4 * hidden, hidden),
    )
  }
  parameters.push(
    ...linearLayer('action_head.norm.linear', hidden, 2 * hidden),
    ...linearLayer('action_head.action_out', hidden, actions),
  )
  return { ...facts, ...blocks, parameters }
}

/** The modules of a model, in the order vision, projector, language, action (which a decoder of tokens does not have). */
export function modelModules(model: ModelDescription): readonly ModuleFacts[] {
  const config = known(model.language.config)
  const width =
    known(model.language.hidden) ?? (config === undefined ? undefined : causalLM(config, { head: false })?.hidden)
  const head = action(model, width)
  return [vision(model), projector(model, width), language(model), ...(head === undefined ? [] : [head])]
}
