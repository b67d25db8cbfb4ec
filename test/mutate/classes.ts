/**
 * Classes of plausible mistakes. Each makes mutants of a clean pipeline and condemns them by an oracle of its own: arithmetic on the
 * declaration and the lock, and facts of the libraries, never the rules that are to catch them.
 */
import { gpuTable } from '../../sdk/catalog/gpus.ts'
import type { Base } from './bases.ts'
import { GONE, mutant, type Change, type Mutant } from './change.ts'
import { factsOf, type Facts, type Source } from './facts.ts'

export interface MutationClass {
  readonly name: string
  /** What somebody does. */
  readonly mistake: string
  readonly mutants: (base: Base, facts: Facts) => Mutant[]
}

/** Makes a class; mutants are asked for with the facts of their base. */
const one = (name: string, mistake: string, mutants: MutationClass['mutants']): MutationClass => ({
  name,
  mistake,
  mutants,
})

/** A mutant where a condition holds. */
const where = (holds: boolean, make: () => Mutant | Mutant[]): Mutant[] => (holds ? [make()].flat() : [])

const OTHER_WORDS = 'nothing reads the word, and what was meant is not done'

const batch: readonly MutationClass[] = [
  one('batch off by one', 'a global batch that micro-batches do not fill', (base, { world }) => {
    const { globalBatch, microBatch } = base.declaration.training
    const next = globalBatch + 1
    return where(next % (microBatch * world) !== 0, () =>
      mutant(base, 'no whole number of micro-batches makes an update', [['training', 'globalBatch'], next]),
    )
  }),
  one('micro-batch does not divide', 'a micro-batch of three times the size', (base, { world }) => {
    const { globalBatch, microBatch } = base.declaration.training
    const divides = globalBatch % (3 * microBatch * world) === 0
    return [
      mutant(base, divides ? null : 'no whole number of micro-batches makes an update', [
        ['training', 'microBatch'],
        3 * microBatch,
      ]),
    ]
  }),
  one('degree does not divide', 'three processes instead of two, four or eight', (base) => {
    const { hardware, training } = base.declaration
    const nodes = hardware.kind === 'gpus' ? (hardware.nodes ?? 1) : 1
    const divides = training.globalBatch % (3 * nodes * training.microBatch) === 0
    const path = ['hardware', hardware.kind === 'gpus' ? 'perNode' : 'processes']
    return [mutant(base, divides ? null : 'the batch cannot be shared among three', [path, 3])]
  }),
  one('batch a thousandfold', 'samples per epoch written as samples per update', (base, { frames }) => {
    const globalBatch = 1_000 * base.declaration.training.globalBatch
    const { updates } = base.declaration.training
    const passes = (updates * globalBatch) / frames
    const reason =
      globalBatch > frames
        ? 'an update holds the same frame more than once'
        : passes > 10_000
          ? `every frame is trained on ${passes.toFixed(0)} times`
          : null
    return [mutant(base, reason, [['training', 'globalBatch'], globalBatch])]
  }),
]

/** Modules whose own options say that they train all the time, without adapters. */
function trained({ declaration }: Base): string[] {
  return Object.entries(declaration.modules ?? {})
    .filter(
      ([, { freeze, adapt, lr }]) =>
        (freeze === undefined || freeze === 'never') && adapt === undefined && lr !== undefined,
    )
    .map(([name]) => name)
}

const precision: readonly MutationClass[] = [
  one('dtype that does not exist', "'fp16' or 'bfloat16'", (base, { modules }) =>
    modules
      .slice(0, 1)
      .flatMap((name) =>
        ['fp16', 'bfloat16'].map((dtype) => mutant(base, OTHER_WORDS, [['modules', name, 'dtype'], dtype])),
      ),
  ),
  one('dtype that the GPU lacks', 'a card of an older generation', (base) => {
    const { hardware, modules = {} } = base.declaration
    const isBf16 = Object.values(modules).some(({ dtype }) => dtype === 'bf16')
    return where(hardware.kind === 'gpus' && isBf16, () =>
      (['V100-SXM2-32GB', 'T4'] as const).map((gpu) =>
        mutant(base, 'tensor cores of compute capability below 8.0 have no bf16', [['hardware', 'gpu'], gpu]),
      ),
    )
  }),
  one('fp64 on GPUs', 'the dtype of a verification left in', (base, { modules }) =>
    where(base.declaration.hardware.kind === 'gpus' && modules.length > 0, () =>
      mutant(base, 'a hundredth of the speed, for digits that the data does not have', [
        ['modules', modules[0] ?? '', 'dtype'],
        'fp64',
      ]),
    ),
  ),
  one('weights below fp32', 'masters in bf16, to save memory', (base) =>
    trained(base)
      .slice(0, 2)
      .map((name) =>
        mutant(base, 'bf16 keeps 8 bits: an update below 1/256 of a weight is rounded away', [
          ['modules', name, 'storage'],
          'bf16',
        ]),
      ),
  ),
]

const cameraChanges = (
  facts: Facts,
  make: (source: Source, camera: string, feature: string, others: readonly string[]) => Mutant[],
): Mutant[] =>
  facts.sources.flatMap((source) =>
    Object.entries(source.cameras).flatMap(([camera, feature]) =>
      make(
        source,
        camera,
        feature,
        Object.keys(source.cameras).filter((name) => name !== camera),
      ),
    ),
  )

const cameras: readonly MutationClass[] = [
  one('missing camera', 'a camera of the model without a feature', (base, facts) =>
    cameraChanges(facts, (source, camera, _feature, others) => {
      // LeRobot itself leaves out a camera of published weights that no dataset has, if one is left.
      const isLeftOut = facts.isPolicy && 'weights' in base.declaration.model && others.length > 0
      // Nobody has to say what is obvious: the feature of that name, or the only picture of the only camera.
      const pictures = Object.entries(source.entry.features).filter(
        ([, { dtype }]) => dtype === 'image' || dtype === 'video',
      )
      const named = pictures.filter(([name]) => name === camera || name.endsWith(`.${camera}`))
      const isObvious = named.length === 1 || (pictures.length === 1 && others.length === 0)
      const reason = isLeftOut || isObvious ? null : 'the model has a slot for a picture that never comes'
      return [mutant(base, reason, [[...source.camerasPath, camera], GONE])]
    }),
  ),
  one('camera misspelled', 'two letters of a camera changed places', (base, facts) =>
    cameraChanges(facts, (source, camera, feature) => {
      const wrong = `${camera.slice(1, 2)}${camera.slice(0, 1)}${camera.slice(2)}`
      return where(wrong !== camera, () =>
        mutant(base, OTHER_WORDS, [[...source.camerasPath, camera], GONE], [[...source.camerasPath, wrong], feature]),
      )
    }),
  ),
  one('feature misspelled', 'the name of a feature that the dataset does not have', (base, facts) =>
    cameraChanges(facts, (source, camera, feature) => [
      mutant(base, 'the first batch fails on a missing key', [[...source.camerasPath, camera], `${feature}s`]),
      mutant(base, 'the first batch fails: a vector is no picture', [
        [...source.camerasPath, camera],
        'observation.state',
      ]),
    ]),
  ),
  one('camera used twice', 'one picture in two slots', (base, facts) =>
    cameraChanges(facts, (source, camera, _feature, others) =>
      others
        .slice(0, 1)
        .map((other) =>
          mutant(base, 'two slots see the same: what the other camera sees is lost', [
            [...source.camerasPath, camera],
            source.cameras[other],
          ]),
        ),
    ),
  ),
]

const undetectable: readonly MutationClass[] = [
  one('cameras swapped', 'each camera of two gets the picture of the other', (base, facts) =>
    facts.sources.flatMap((source) => {
      const [a, b] = Object.keys(source.cameras)
      return where(a !== undefined && b !== undefined, () =>
        mutant(
          base,
          'after pretraining or in a rollout the slots are the other way round',
          [[...source.camerasPath, a ?? ''], source.cameras[b ?? '']],
          [[...source.camerasPath, b ?? ''], source.cameras[a ?? '']],
        ),
      )
    }),
  ),
  one('dataset misspelled', 'a repository that does not exist', (base, { sources }) =>
    sources.flatMap(({ path, dataset }) =>
      where(dataset.repo !== undefined, () =>
        mutant(base, 'there is no such dataset', [[...path, 'repo'], `${dataset.repo ?? ''}s`]),
      ),
    ),
  ),
  one('state that is the action', 'the action as proprioception', (base, { sources }) =>
    where(base.declaration.model.kind === 'composed' && base.declaration.model.state === true, () =>
      mutant(
        base,
        'the policy learns to copy its input, and has none in a rollout',
        ...sources.map(({ path }): Change => [[...path, 'state'], 'action']),
      ),
    ),
  ),
  one('updates in another unit', 'epochs or samples for updates', (base, { frames }) => {
    const { updates, globalBatch } = base.declaration.training
    const passes = (updates * 1_000 * globalBatch) / frames
    return [
      mutant(base, (3 * globalBatch) / frames < 0.01 ? 'three updates see not a hundredth of the data' : null, [
        ['training', 'updates'],
        3,
      ]),
      mutant(base, passes > 10_000 ? `every frame is trained on ${passes.toFixed(0)} times` : null, [
        ['training', 'updates'],
        1_000 * updates,
      ]),
    ]
  }),
]

const model: readonly MutationClass[] = [
  one('prompt without instruction', 'a fixed text as prompt', (base) =>
    where(base.declaration.model.kind === 'composed', () =>
      mutant(base, 'the policy never hears what it is to do', [['model', 'prompt'], 'What should the robot do?']),
    ),
  ),
  one('prompt cut off', 'a length in words given as a length in tokens', (base) => {
    const { model: declared } = base.declaration
    return where(declared.kind === 'composed', () => {
      const prompt = declared.kind === 'composed' ? (declared.prompt ?? '{instruction}') : ''
      // Bytes, or at best one token for four of them; two tokens of instruction say nothing.
      const least = prompt.replace('{instruction}', '').length / 4
      return mutant(base, least + 2 > 1 ? 'the instruction is cut off' : null, [['model', 'promptTokens'], 1])
    })
  }),
  one('projector of another kind', 'key points of patch tokens, or a linear layer behind a map', (base) => {
    const { model: declared } = base.declaration
    if (declared.kind !== 'composed') return []
    const wrong = declared.projector.kind === 'spatialSoftArgmax' ? null : { kind: 'spatialSoftArgmax', points: 16 }
    return where(wrong !== null, () =>
      mutant(base, 'patch tokens are no map: the forward pass fails', [['model', 'projector'], wrong]),
    )
  }),
  one('chunk longer than episodes', 'a chunk in milliseconds', (base, { chunk, episodeLength }) =>
    where(chunk !== undefined, () => {
      const value = Math.ceil(10 * episodeLength)
      return mutant(base, 'nine of ten predicted actions lie beyond the end of every episode', [
        chunk?.path ?? [],
        value,
      ])
    }),
  ),
  one('heads do not divide', 'attention heads that do not divide the width', (base) => {
    const { model: declared } = base.declaration
    if (declared.kind !== 'composed' || !('config' in declared.language)) return []
    const { hidden_size: hidden } = declared.language.config
    return where(typeof hidden === 'number' && hidden % 7 !== 0, () =>
      mutant(base, 'transformers refuses the configuration', [
        ['model', 'language', 'config', 'num_attention_heads'],
        7,
      ]),
    )
  }),
]

const modules: readonly MutationClass[] = [
  one('swapped modules', 'the options of two modules under each other’s names', (base, facts) => {
    const { modules: options = {} } = base.declaration
    const [a, b] = ['projector', facts.modules.find((name) => options[name]?.recompute === 'full')]
    if (b === undefined || options[a] === undefined) return []
    return [
      mutant(
        base,
        'a projector has no blocks to recompute',
        [['modules', a], options[b]],
        [['modules', b], options[a]],
      ),
    ]
  }),
  one('module misspelled', 'two letters of a module changed places', (base, facts) =>
    facts.modules.map((name) => {
      const wrong = `${name.slice(0, 2)}${name.slice(3, 4)}${name.slice(2, 3)}${name.slice(4)}`
      return mutant(
        base,
        wrong === name ? null : OTHER_WORDS,
        [['modules', name], GONE],
        [['modules', wrong], base.declaration.modules?.[name]],
      )
    }),
  ),
  one('option misspelled', 'an option with a letter too few', (base) =>
    (['updates', 'globalBatch', 'schedule', 'clip'] as const).flatMap((option) => {
      const value = base.declaration.training[option]
      return where(value !== undefined, () =>
        mutant(base, OTHER_WORDS, [['training', option], GONE], [['training', option.slice(0, -1)], value]),
      )
    }),
  ),
  one('LoRA on nothing', 'targets of another family', (base, facts) =>
    facts.modules
      .filter((name) => base.declaration.modules?.[name]?.adapt !== undefined)
      .map((name) =>
        mutant(base, 'no adapter is made, and nothing of the module trains', [
          ['modules', name, 'adapt', 'targets'],
          ['c_attn', 'query_key_value'],
        ]),
      ),
  ),
  one('LoRA scale', 'alpha and rank mixed up, or alpha as a factor of a hundred', (base, facts) =>
    facts.modules
      .filter((name) => base.declaration.modules?.[name]?.adapt !== undefined)
      .flatMap((name) => {
        const rank = base.declaration.modules?.[name]?.adapt?.rank ?? 1
        return [
          mutant(base, 'the adapters are amplified a hundredfold, which the learning rate does not know of', [
            ['modules', name, 'adapt', 'alpha'],
            100 * rank,
          ]),
          mutant(base, 'adapters of a rank above every width have more parameters than what they adapt', [
            ['modules', name, 'adapt', 'rank'],
            65_536,
          ]),
        ]
      }),
  ),
]

const moduleFreeze = (base: Base, name: string, freeze: unknown, reason: string | null): Mutant =>
  mutant(base, reason, [['modules', name, 'freeze'], freeze])

const freezing: readonly MutationClass[] = [
  one('freeze phase past the end', 'a phase that begins when the run is over', (base, facts) => {
    const { updates } = base.declaration.training
    return facts.modules.slice(0, 2).flatMap((name) => [
      moduleFreeze(base, name, { kind: 'until', when: 2 * updates }, 'the module stays frozen to the end'),
      moduleFreeze(
        base,
        name,
        [
          { kind: 'phase', from: 0, train: 'none' },
          { kind: 'phase', from: updates + 1, train: 'all' },
        ],
        'the module stays frozen to the end',
      ),
    ])
  }),
  one('phases out of order', 'a schedule whose phases do not rise', (base, facts) =>
    facts.modules.slice(0, 1).map((name) =>
      moduleFreeze(
        base,
        name,
        [
          { kind: 'phase', from: 0, train: 'none' },
          { kind: 'phase', from: '50%', train: 'all' },
          { kind: 'phase', from: '20%', train: 'none' },
        ],
        'of two orders nobody knows which was meant',
      ),
    ),
  ),
  one('phases under ddp', 'a frozen start with replicas', (base, facts) =>
    where(base.declaration.parallel?.kind === 'ddp', () =>
      facts.modules
        .slice(0, 1)
        .map((name) =>
          moduleFreeze(
            base,
            name,
            { kind: 'until', when: '50%' },
            'DDP builds its buckets once: what unfreezes later is not reduced over the processes',
          ),
        ),
    ),
  ),
  one('more layers than there are', 'lastLayers of a larger model', (base, facts) =>
    facts.modules
      .filter((name) => ['vision', 'language'].includes(name))
      .map((name) =>
        moduleFreeze(
          base,
          name,
          [{ kind: 'phase', from: 0, train: { kind: 'lastLayers', count: 999 } }],
          'no model of the catalog has 999 blocks',
        ),
      ),
  ),
  one('everything frozen', "freeze: 'always' on every module", (base, facts) => {
    const { isPolicy } = facts
    const names = isPolicy
      ? facts.modules
      : ['vision', 'projector', 'language', 'action'].filter((name) => facts.modules.includes(name))
    const isAll = !isPolicy && names.length >= 3
    return where(names.length > 0, () =>
      mutant(
        base,
        isAll ? 'no parameter has a gradient: backward fails' : null,
        ...names.map((name): Change => [['modules', name], { freeze: 'always' }]),
      ),
    )
  }),
]

const rates: readonly MutationClass[] = [
  one('learning rate times 10, 1000', 'a digit of the exponent', (base, { peak }) =>
    [10, 1_000].flatMap((factor) => {
      if (peak === undefined) return []
      const { modules: options = {}, training } = base.declaration
      const changes: Change[] = Object.entries(options).flatMap(([name, { lr }]): Change[] =>
        lr === undefined ? [] : [[['modules', name, 'lr'], lr * factor]],
      )
      if (training.lr !== undefined) changes.push([['training', 'lr'], training.lr * factor])
      // AdamW moves every weight by about lr; 0.02 is the standard deviation that transformers are initialised with.
      const reason = peak * factor > 0.02 ? 'one update moves a weight by more than its own size' : null
      return [mutant(base, reason, ...changes)]
    }),
  ),
  one('learning rate of a millionth', '2e-11 for 2e-5', (base, { peak }) => {
    if (peak === undefined) return []
    const { modules: options = {}, training } = base.declaration
    const changes: Change[] = Object.entries(options).flatMap(([name, { lr }]): Change[] =>
      lr === undefined ? [] : [[['modules', name, 'lr'], lr * 1e-6]],
    )
    if (training.lr !== undefined) changes.push([['training', 'lr'], training.lr * 1e-6])
    const moved = peak * 1e-6 * training.updates
    return [
      mutant(base, moved < 2e-4 ? 'in all of the run no weight moves by a hundredth of its size' : null, ...changes),
    ]
  }),
  one('learning rate of zero', 'a placeholder that stayed', (base) =>
    trained(base)
      .slice(0, 2)
      .map((name) => mutant(base, 'the module is computed, and never changes', [['modules', name, 'lr'], 0])),
  ),
  one('one module far slower', 'the exponent of one module', (base) =>
    trained(base)
      .slice(0, 2)
      .flatMap((name) => {
        const lr = base.declaration.modules?.[name]?.lr ?? 0
        const others = Object.entries(base.declaration.modules ?? {}).flatMap(([other, options]) =>
          other === name || options.lr === undefined || options.freeze === 'always' ? [] : [options.lr],
        )
        const ratio = Math.max(0, ...others) / (lr / 1_000)
        return [
          mutant(base, ratio > 100 ? 'it learns a hundredth of what its neighbours do' : null, [
            ['modules', name, 'lr'],
            lr / 1_000,
          ]),
        ]
      }),
  ),
  one('warm-up in another unit', 'a fraction for updates, or updates beyond the run', (base) => {
    const { schedule, updates } = base.declaration.training
    const kind = schedule?.kind ?? 'constant'
    const to = (warmup: unknown): Change => [['training', 'schedule'], { ...schedule, kind, warmup }]
    return [
      mutant(base, '0.03 updates are none', to(0.03)),
      mutant(base, 'the peak is never reached', to(2 * updates)),
      mutant(base, 'the rate rises through nearly all of the run', to('97%')),
      mutant(base, '300 % of the run are not in it', to('300%')),
    ]
  }),
  one('schedule in another unit', 'the last learning rate for its share of the peak', (base) => {
    const { schedule } = base.declaration.training
    return where(schedule?.kind === 'cosine' || schedule?.kind === 'linearDecay', () => [
      mutant(base, 'a millionth of the peak is not what was meant by a floor', [
        ['training', 'schedule', 'floor'],
        1e-6,
      ]),
      mutant(base, 'a share of 10 raises the rate tenfold at the end', [['training', 'schedule', 'floor'], 10]),
      mutant(base, 'the schedule does not fall', [['training', 'schedule', 'floor'], 1]),
    ])
  }),
  one('weight decay a thousandfold', 'a decay of 10', (base, { peak }) => {
    const { updates } = base.declaration.training
    const shrink = Math.exp(-(peak ?? 0) * 10 * updates * 0.5)
    const names = trained(base).filter((name) => base.declaration.modules?.[name]?.weightDecay !== undefined)
    return where(peak !== undefined && names.length === 0, () =>
      mutant(base, shrink < 0.1 ? 'decay alone leaves less than a tenth of every weight' : null, [
        ['training', 'weightDecay'],
        10,
      ]),
    )
  }),
  one('optimizer constants', 'betas in the other order, or an epsilon of 1e-2', (base) => [
    mutant(base, 'the second moment forgets faster than the first: steps of no bound', [
      ['training', 'optimizer'],
      { kind: 'adamw', betas: [0.999, 0.9] },
    ]),
    mutant(base, 'epsilon is above the gradients: AdamW is SGD at a hundredfold rate', [
      ['training', 'optimizer'],
      { kind: 'adamw', eps: 1e-2 },
    ]),
  ]),
]

const run: readonly MutationClass[] = [
  one('checkpoint beyond the run', 'an interval of another run', (base) => {
    const { updates } = base.declaration.training
    return [mutant(base, 'a crash loses everything', [['checkpoint'], { every: 2 * updates }])]
  }),
  one('checkpoint at every update', 'an interval of one', (base) => {
    const { updates } = base.declaration.training
    return [mutant(base, updates > 2_000 ? 'the run writes more than it trains' : null, [['checkpoint'], { every: 1 }])]
  }),
  one('holdout that does not exist', 'episodes of another dataset', (base, { sources }) =>
    sources.flatMap(({ path, entry, dataset }) => [
      mutant(base, 'there is no such episode', [[...path, 'holdout'], [entry.episodes + 5]]),
      ...where(dataset.episodes === undefined, () =>
        mutant(base, 'nothing is left to train on', [[...path, 'holdout'], '100%']),
      ),
      mutant(base, 'there is no such episode', [
        [...path, 'episodes'],
        [0, entry.episodes],
      ]),
      mutant(base, 'an episode counts twice', [
        [...path, 'episodes'],
        [0, 1, 1, 2, 3, 4, 5, 6, 7],
      ]),
    ]),
  ),
  one('validation without holdout', 'held-out episodes taken away', (base, { sources }) =>
    where(base.declaration.training.validateEvery !== undefined, () =>
      mutant(
        base,
        'no loss is ever computed on what was held out',
        ...sources.map(({ path }): Change => [[...path, 'holdout'], GONE]),
      ),
    ),
  ),
  one('wrong type', 'a number as a text, a list for one', (base) => [
    mutant(base, 'a text is no number', [['training', 'updates'], '1000']),
    mutant(base, 'a batch is whole', [['training', 'globalBatch'], 64.5]),
    mutant(base, 'there is no loss of a negative clip', [['training', 'clip'], -1]),
    mutant(base, 'a list is wanted', [['export'], { kind: 'lerobot' }]),
  ]),
]

/** LeRobot's X-VLA leaves every feature as it is (configuration_xvla.py, normalization_mapping). */
function isScaled({ declaration }: Base): boolean {
  return declaration.model.kind !== 'xvla'
}

const data: readonly MutationClass[] = [
  one('statistics of another robot', 'statistics of another width, or another scale', (base, { sources }) =>
    sources.flatMap(({ key, dataset, entry }) => {
      const feature = dataset.action ?? 'action'
      const at = ['lock', 'datasets', key, 'statistics', feature]
      const { mean, min, max } = entry.statistics[feature] ?? {}
      if (mean === undefined || min === undefined || max === undefined || !isScaled(base)) return []
      const shorter = Object.entries(entry.statistics[feature] ?? {}).map(([name, values]): Change => [
        [...at, name],
        values.slice(1),
      ])
      return [
        mutant(base, 'seven values cannot normalise eight dimensions', ...shorter),
        mutant(base, 'a mean lies between minimum and maximum', [
          [...at, 'mean'],
          max.map((value) => (value ?? 0) + 10),
        ]),
      ]
    }),
  ),
  one('statistic missing', 'statistics of an older recorder', (base, { sources, isPolicy }) =>
    sources.flatMap(({ key, dataset }) => {
      const feature = dataset.action ?? 'action'
      const mode = base.declaration.normalize?.action
      const isUsed = mode === 'quantiles' || base.declaration.model.kind === 'openvla'
      const at = ['lock', 'datasets', key, 'statistics', feature]
      return [
        mutant(base, isUsed ? 'nothing to normalise by' : null, [[...at, 'q01'], GONE], [[...at, 'q99'], GONE]),
        ...where(isScaled(base) && (!isPolicy || mode !== 'identity'), () =>
          mutant(base, 'nothing to normalise by', [['lock', 'datasets', key, 'statistics', feature], GONE]),
        ),
      ]
    }),
  ),
  one('constant dimension', 'a joint that never moved', (base, { sources }) =>
    where(base.declaration.normalize?.constant === undefined || base.declaration.normalize.constant === 'refuse', () =>
      sources.flatMap(({ key, dataset, entry }) => {
        const feature = dataset.action ?? 'action'
        const at = ['lock', 'datasets', key, 'statistics', feature]
        const changes = Object.entries(entry.statistics[feature] ?? {}).map(([name, values]): Change => [
          [...at, name],
          values.map((value, index) => (index > 0 ? value : name === 'std' ? 0 : 0.25)),
        ])
        return where(changes.length > 0 && isScaled(base), () =>
          mutant(base, 'a division by a range of zero', ...changes),
        )
      }),
    ),
  ),
  one('widths differ', 'a second robot with another number of joints', (base, { sources }) =>
    where(sources.length > 1, () => {
      const [first] = sources
      if (first === undefined) return []
      const at = ['lock', 'datasets', first.key, 'features', first.dataset.action ?? 'action']
      return [
        mutant(base, 'one head cannot give actions of two widths', [[...at, 'shape'], [9]], [[...at, 'names'], null]),
      ]
    }),
  ),
  one('rates differ', 'a second robot recorded at another rate', (base, { sources }) =>
    where(sources.length > 1, () => {
      const [first] = sources
      if (first === undefined) return []
      return [
        mutant(base, 'a chunk means twice as long a time in one dataset', [
          ['lock', 'datasets', first.key, 'fps'],
          3 * first.entry.fps,
        ]),
      ]
    }),
  ),
  one('mixture weight', 'a weight of another unit', (base, { sources }) =>
    where(sources.length > 1, () => {
      const { updates, globalBatch } = base.declaration.training
      const isNothing = 1e-9 * updates * globalBatch < 1
      return [mutant(base, isNothing ? 'not one sample of the dataset is drawn' : null, [['data', 0, 'weight'], 1e-9])]
    }),
  ),
  one('action mask of another width', 'a mask with one flag too many', (base, { sources, isPolicy }) =>
    where(!isPolicy, () => {
      const [first] = sources
      const width = first?.entry.features[first.dataset.action ?? 'action']?.shape[0] ?? 0
      const mask = Array.from({ length: width + 1 }, () => true)
      return [mutant(base, 'a flag stands for no dimension', [['normalize', 'actionMask'], mask])]
    }),
  ),
  one('actions not normalised', "normalize: { action: 'identity' }", (base, { sources }) => {
    const { model: declared } = base.declaration
    const isTokens = declared.kind === 'openvla' && (declared.action === undefined || declared.action.kind === 'tokens')
    const extreme = sources.some(({ dataset, entry }) =>
      (entry.statistics[dataset.action ?? 'action']?.['max'] ?? []).some((value) => Math.abs(value ?? 0) > 1),
    )
    return [
      mutant(base, isTokens && extreme ? 'bins end at -1 and 1: what lies beyond is cut off' : null, [
        ['normalize', 'action'],
        'identity',
      ]),
    ]
  }),
]

/** Bytes per parameter that trains: weight, gradient and two moments in fp32. */
const STATE = 16
/** Parameters of models that are fine-tuned in full, rounded down. */
const SIZES: Readonly<Record<string, number>> = { openvla: 7e9, pi0: 2.5e9, pi05: 2.5e9 }

const hardware: readonly MutationClass[] = [
  one('GPU that does not exist', 'a name without its memory', (base) =>
    where(base.declaration.hardware.kind === 'gpus', () =>
      mutant(base, 'there are cards of this name with 40 and with 80 GB', [['hardware', 'gpu'], 'A100']),
    ),
  ),
  one('wrong GPU memory', 'one small card for a large model', (base) => {
    const { hardware: declared, model: of, modules: options = {} } = base.declaration
    const size = SIZES[of.kind]
    if (size === undefined || declared.kind !== 'gpus') return []
    const isFull = Object.values(options).every(({ adapt, freeze }) => adapt === undefined && freeze !== 'always')
    const fits = size * (isFull ? STATE : 2) <= gpuTable['RTX-3090'].memoryBytes
    return [
      mutant(
        base,
        fits ? null : 'weights and optimizer state alone are larger than the card',
        [['hardware', 'gpu'], 'RTX-3090'],
        [['hardware', 'perNode'], 1],
        [['hardware', 'nodes'], GONE],
      ),
    ]
  }),
  one('host memory in another unit', 'gigabytes for bytes', (base) =>
    where(base.declaration.hardware.kind === 'gpus', () =>
      mutant(base, 'a host with 512 bytes', [['hardware', 'hostMemory'], 512]),
    ),
  ),
  one('all GPUs on one node', 'the whole cluster as one node', (base) =>
    where(base.declaration.hardware.kind === 'gpus', () =>
      mutant(base, 'torchrun starts 64 processes on a machine of 8 cards', [['hardware', 'perNode'], 64]),
    ),
  ),
  one('several nodes, one started', 'torchrun alone on two nodes', (base) => {
    const { hardware: declared, launch = [] } = base.declaration
    const doubled = { nodes: 2, globalBatch: 2 * base.declaration.training.globalBatch }
    return where(
      declared.kind === 'gpus' && declared.nodes === undefined && !launch.some(({ kind }) => kind === 'slurm'),
      () =>
        mutant(
          base,
          'nobody starts the second node, and the first waits for it',
          [['hardware', 'nodes'], doubled.nodes],
          [['training', 'globalBatch'], doubled.globalBatch],
        ),
    )
  }),
  one('slurm time in another unit', 'hours where Slurm reads minutes', (base) =>
    (base.declaration.launch ?? []).flatMap((launch, index) =>
      where(launch.kind === 'slurm', () => [
        mutant(base, 'the job ends after 24 minutes', [['launch', index, 'time'], '24']),
        mutant(base, 'the job ends before the run has begun', [['launch', index, 'time'], '00:00:24']),
      ]),
    ),
  ),
]

const outputs: readonly MutationClass[] = [
  one('exported twice', 'a package of one format in two dtypes', (base) => {
    const [first] = base.declaration.export ?? []
    return where(first !== undefined, () =>
      mutant(base, 'the second package overwrites the first', [
        ['export', (base.declaration.export ?? []).length],
        { ...first, dtype: 'bf16' },
      ]),
    )
  }),
  one('launched or tracked twice', 'the same entry again', (base) =>
    (['launch', 'track'] as const).flatMap((list) => {
      const entries = base.declaration[list] ?? []
      return where(entries.length > 0, () =>
        mutant(base, 'the second overwrites the first', [[list, entries.length], entries[0]]),
      )
    }),
  ),
  one('evaluated without a package', 'no export', (base) =>
    where(base.declaration.evaluate !== undefined, () =>
      mutant(base, 'there is nothing to evaluate', [['export'], []]),
    ),
  ),
  one('evaluation at another image size', 'the simulator’s own size', (base, { sources }) => {
    const { evaluate } = base.declaration
    const side = sources[0]?.entry.features[Object.values(sources[0].cameras)[0] ?? '']?.shape[0]
    return where(evaluate !== undefined && side !== undefined, () =>
      mutant(base, side === 480 ? null : 'the policy sees pictures that it was not trained on', [
        ['evaluate', 'imageSize'],
        480,
      ]),
    )
  }),
  one('more actions than a chunk', 'a horizon of another policy', (base, { chunk }) =>
    where(base.declaration.evaluate !== undefined && chunk !== undefined, () =>
      mutant(base, 'a prediction has no such action', [['evaluate', 'actionSteps'], 2 * (chunk?.value ?? 1)]),
    ),
  ),
  one('task that does not exist', 'a task of another benchmark', (base) =>
    where(base.declaration.evaluate !== undefined, () => [
      mutant(base, 'MetaWorld has no such task', [['evaluate', 'tasks'], ['reach-v4']]),
      mutant(base, 'the same episodes are counted twice', [
        ['evaluate', 'tasks'],
        ['reach-v3', 'reach-v3'],
      ]),
    ]),
  ),
  one('rollouts of no length', 'seconds for steps', (base, { episodeLength }) =>
    where(base.declaration.evaluate !== undefined, () =>
      mutant(base, episodeLength > 3 ? 'no demonstration was that short' : null, [['evaluate', 'maxSteps'], 3]),
    ),
  ),
  one('name with blanks', 'a title for a name', (base) => [
    mutant(base, 'the name becomes part of paths and job names', [['name'], 'My first VLA']),
  ]),
]

export const classes: readonly MutationClass[] = [
  ...batch,
  ...precision,
  ...cameras,
  ...undetectable,
  ...model,
  ...modules,
  ...freezing,
  ...rates,
  ...run,
  ...data,
  ...hardware,
  ...outputs,
]

/** All mutants of all classes. */
export function mutantsOf(base: Base): { readonly of: MutationClass; readonly mutant: Mutant }[] {
  const facts = factsOf(base)
  return classes.flatMap((of) => of.mutants(base, facts).map((made) => ({ of, mutant: made })))
}
