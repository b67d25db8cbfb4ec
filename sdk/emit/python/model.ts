/** model.py: the architecture, built in one place for training, packaging and evaluation. */
import { isKnown, type ComposedPlanModel, type PlanTower, type PolicyPlanModel } from '../../plan/plan.ts'
import { modelPhrase, need, projectPath, projectSource, why, writtenBy, type Project } from '../project.ts'
import { oneLine } from '../text.ts'
import { Document } from './document.ts'
import {
  call,
  dict,
  float,
  int,
  list,
  none,
  py,
  str,
  tuple,
  use,
  value,
  bool,
  name,
  type Argument,
  type Json,
  type Py,
} from './literal.ts'

type Entry = readonly [key: string, value: Py]

/** The source, not yet formatted. */
export function modelFile(project: Project): Document {
  const { model } = project.pipeline
  const document = new Document(
    `${oneLine(`The architecture: ${modelPhrase(project.pipeline)}.`)}\n\ntrain.py, pack.py, evaluate.py and the packages build the model from here.\n${writtenBy(project)}`,
  )
  if (model.family === 'lerobot') policy(document, project, model)
  else composed(document, project, model)
  return document
}

/** A policy of LeRobot's: what its own configuration class is made with. */
function policy(document: Document, project: Project, model: PolicyPlanModel): void {
  const at = (field: string): string | undefined => why(project, `/model/${field}`)
  const { normalize } = project.pipeline
  const modes = { meanStd: 'MEAN_STD', minMax: 'MIN_MAX', quantiles: 'QUANTILES', identity: 'IDENTITY' } as const
  const sizes = need(model.imageSizes, '/model/imageSizes')
  const stateDim = need(model.stateDim, '/model/stateDim')
  const images = need(model.images, '/model/images')
  document
    .line(
      py`POLICY = ${call(use('vla_runtime.policies.spec', 'PolicySpec'), [
        { keyword: 'type', value: str(model.type) },
        model.plugin === null ? undefined : { keyword: 'plugin', value: str(model.plugin) },
        { keyword: 'cameras', value: tuple(model.cameras.map(str)), comment: at('cameras') },
        {
          keyword: 'image_sizes',
          value: dict(
            model.cameras.flatMap((camera): Entry[] => {
              const size = sizes[camera]
              return size === undefined ? [] : [[camera, tuple(size.map(int))]]
            }),
          ),
          comment: at('imageSizes'),
        },
        { keyword: 'state_dim', value: int(stateDim) },
        { keyword: 'action_dim', value: int(need(model.actionDim, '/model/actionDim')) },
        { keyword: 'config', value: value(fromProject(project, model.config)), comment: at('config') },
        {
          keyword: 'normalization',
          value: dict([
            ...(stateDim === 0 ? [] : [['STATE', str(modes[normalize.state])] satisfies Entry]),
            ['ACTION', str(modes[normalize.action])],
            ['VISUAL', str(images === 'identity' ? 'IDENTITY' : 'MEAN_STD')],
          ]),
          comment: why(project, '/normalize/action'),
        },
        images === 'imagenet'
          ? { keyword: 'imagenet_statistics', value: bool(true), comment: at('images') }
          : undefined,
        { keyword: 'padding', value: str(model.padding), comment: at('padding') },
        model.batchNorm === 'frozen'
          ? { keyword: 'batch_norm', value: str('frozen'), comment: at('batchNorm') }
          : undefined,
        model.statistics === 'inherited'
          ? { keyword: 'statistics', value: str('inherited'), comment: at('statistics') }
          : undefined,
        model.tokenizer === null
          ? undefined
          : { keyword: 'tokenizer', value: str(projectPath(project, model.tokenizer)), comment: at('tokenizer') },
        ...(model.weights === null
          ? []
          : [
              { keyword: 'pretrained', value: str(projectSource(project, model.weights.source)) },
              model.weights.revision === null ? undefined : { keyword: 'revision', value: str(model.weights.revision) },
            ]),
      ])}`,
    )
    .blank()
    .blank()
  document.block(py`def build_model() -> ${use('lerobot.policies.pretrained', 'PreTrainedPolicy')}:`, (body) => {
    body.line(
      model.weights === null
        ? py`"""LeRobot's own class, initialised as LeRobot does."""`
        : py`"""LeRobot's own class; on the meta device, its parameters are not allocated."""`,
    )
    body.line(py`return ${use('vla_runtime.policies.spec', 'build_policy')}(POLICY)`)
  })
}

/** Folders in a policy's configuration (a base model, a tokenizer) as the project's scripts see them. */
function fromProject(project: Project, config: PolicyPlanModel['config']): PolicyPlanModel['config'] {
  return Object.fromEntries(
    Object.entries(config).map(([field, own]) => [
      field,
      typeof own === 'string' && /^\.{1,2}\//.test(own) ? projectPath(project, own) : own,
    ]),
  )
}

/** An own VLA or OpenVLA. */
function composed(document: Document, project: Project, model: ComposedPlanModel): void {
  const { pipeline } = project
  const at = (field: string): string | undefined => why(project, `/model/${field}`)
  const argument = (keyword: string, given: Py, comment?: string): Argument => ({ keyword, value: given, comment })
  const config = use('vla_runtime.modeling.composed', 'VLAConfig')
  const model_ = use('vla_runtime.modeling.composed', 'ComposedVLA')

  document.line(py`CAMERAS = ${tuple(model.cameras.map(str))}`, at('cameras')).blank()
  document
    .line(
      py`CONFIG = ${call(config, [
        argument('cameras', name('CAMERAS')),
        argument('vision', list(model.vision.towers.map((tower) => towerEntry(project, tower)))),
        model.vision.towers.length > 1 ? argument('fuse', str(model.vision.fuse)) : undefined,
        argument('projector', value(model.projector)),
        argument('language', languageEntry(project, model)),
        argument('action', actionEntry(model.action), at('action')),
        argument('mask', str(model.mask), at('mask')),
        argument('prompt', str(model.prompt), at('prompt')),
        argument('prompt_tokens', int(model.promptTokens), at('promptTokens')),
        model.promptLower ? argument('prompt_lower', bool(true), at('promptLower')) : undefined,
        model.promptTrailingToken !== null
          ? argument('prompt_trailing_token', int(model.promptTrailingToken), at('promptTrailingToken'))
          : undefined,
        argument('state_dim', int(need(model.stateDim, '/model/stateDim'))),
        argument('action_dim', int(need(model.actionDim, '/model/actionDim'))),
        argument('dtypes', dict(pipeline.modules.map((module): Entry => [module.name, str(module.dtype)]))),
      ])}`,
    )
    .blank()
    .blank()
  document.block(py`def build_model() -> ${model_}:`, (body) => {
    body.line(py`"""The policy with uninitialised (or, on the meta device, unallocated) parameters."""`)
    body.line(py`return ${model_}(CONFIG)`)
  })
}

function towerEntry(project: Project, tower: PlanTower): Py {
  return dict([
    ['source', str(tower.source)],
    ['name', str(tower.source === 'timm' ? tower.name : projectSource(project, tower.name))],
    ...(tower.revision === null ? [] : [['revision', str(tower.revision)] satisfies Entry]),
    ['image_size', int(tower.imageSize)],
    ['output', str(tower.output)],
    ['layer', int(tower.layer)],
    ['norm', str(tower.norm)],
    ['mean', list(tower.mean.map(float))],
    ['std', list(tower.std.map(float))],
    ['options', value(tower.options)],
  ])
}

function languageEntry(project: Project, { language, action }: ComposedPlanModel): Py {
  const entries: Entry[] = []
  if (language.name !== null) {
    entries.push(['name', str(projectSource(project, language.name))])
    entries.push(['revision', language.revision === null ? none : str(language.revision)])
  }
  if (isKnown(language.config)) {
    const { model_type: type = null, ...sizes } = language.config as { readonly [key: string]: Json }
    entries.push(['config', dict([['model_type', value(type)], ...dictEntries(sizes)])])
  }
  entries.push(['tokenizer', str(language.tokenizer)], ['spare_tokens', int(language.spareTokens)])
  if (action.decoder === 'tokens') {
    if (isKnown(action.vocabulary)) entries.push(['action_vocabulary', int(action.vocabulary)])
    if (isKnown(action.stopToken)) entries.push(['stop_token', int(action.stopToken)])
  }
  return dict(entries)
}

function dictEntries(record: { readonly [key: string]: Json }): Entry[] {
  return Object.keys(record)
    .sort()
    .map((key) => [key, value(record[key] ?? null)])
}

function actionEntry(action: ComposedPlanModel['action']): Py {
  return dict([['decoder', str(action.decoder)], ['chunk', int(action.chunk)], ...actionSizes(action)])
}

function actionSizes(action: ComposedPlanModel['action']): Entry[] {
  if (action.decoder === 'tokens') return [['bins', int(action.bins)]]
  if (action.decoder === 'regression')
    return [
      ['hidden', int(need(action.hidden, '/model/action/hidden'))],
      ['blocks', int(action.blocks)],
      ['queries', str(action.queries)],
      ['slots', int(need(action.slots, '/model/action/slots'))],
    ]
  const own: Entry[] =
    action.attention === 'joint' // its layers and heads are the language model's
      ? [['mlp', int(action.mlp)]]
      : [
          ['layers', int(action.layers)],
          ['heads', int(action.heads)],
        ]
  return [
    ['attention', str(action.attention)],
    ['hidden', int(action.hidden)],
    ...own,
    ['steps', int(action.steps)],
    ['time_alpha', float(action.timeAlpha)],
    ['time_beta', float(action.timeBeta)],
  ]
}
