/** Which picture of the dataset each camera of the policy sees. */
import { findLoop } from '../catalog/lerobot/loop.ts'
import type { ReadConfiguration } from './read.ts'
import type { Ledger } from './remarks.ts'

/** Features of a dataset by name, as its meta/info.json has them. */
export type DatasetFeatures = Readonly<Record<string, { readonly dtype: string; readonly shape: readonly number[] }>>

/** What is known of cameras beside the configuration. */
export interface CameraSources {
  /** Camera of the policy -> feature of the dataset, where the user says so. */
  readonly cameras: Readonly<Record<string, string>> | undefined
  /** Features of the dataset, where it is at hand. */
  readonly dataset: DatasetFeatures | undefined
}

export interface ImportedCameras {
  /** Of the policy, in its order. */
  readonly cameras: readonly string[]
  /** Camera -> feature of the dataset. */
  readonly map: Readonly<Record<string, string>>
  /** Whether the policy sees the state, and under which name the dataset has it. */
  readonly state: boolean
  readonly stateFeature: string
}

const stateKey = 'observation.state'
const factory = 'lerobot/policies/factory.py, make_policy'

/** Undefined where no camera is known, which then stands in the ledger. */
export function importCameras(
  config: ReadConfiguration,
  pretrained: boolean,
  around: CameraSources,
  ledger: Ledger,
): ImportedCameras | undefined {
  const { policy, train } = config
  const renamed = new Map(Object.entries(train.rename_map).map(([from, to]) => [to, from]))
  const stateFeature = renamed.get(stateKey) ?? stateKey
  const inputs = Object.entries(policy.inputs)
  for (const [name, { type }] of inputs)
    if (type === 'ENV')
      ledger.refuse(
        `policy.input_features.${name}`,
        'The policy reads the state of the simulated world, which nothing here feeds to it.',
        'Train a policy that sees images.',
      )
  const state = inputs.length === 0 || stateKey in policy.inputs
  const ignored = inputs.filter(([name, { type }]) => type === 'STATE' && name !== stateKey).map(([name]) => name)
  if (ignored.length > 0)
    ledger.note(
      'ignored',
      'policy.input_features',
      `${ignored.join(', ')}: a policy reads ${stateKey} alone.`,
      'lerobot/configs/policies.py, robot_state_feature',
    )
  const done = (map: Readonly<Record<string, string>>): ImportedCameras => {
    unused(map, around.dataset, ledger)
    return { cameras: Object.keys(map), map, state, stateFeature }
  }
  if (around.cameras !== undefined) return done(around.cameras)

  const visual = inputs.filter(([name, { type }]) => type === 'VISUAL' && !/\.empty_camera_\d+$/.test(name))
  const available = around.dataset === undefined ? undefined : pictures(around.dataset)
  let features = visual.map(([name]) => name)
  // A pretrained policy's features are its own, where they are not taken from it: --policy.input_features=null.
  const own = pretrained && !('input_features' in policy.said && inputs.length === 0)
  if (features.length === 0 && own) {
    features = (findLoop(policy.type)?.cameras ?? []).map((camera) => `observation.images.${camera}`)
    if (features.length > 0)
      ledger.assume('policy.input_features', `The cameras of the published ${policy.type}: ${features.join(', ')}.`)
  }
  if (features.length === 0 && !own && available !== undefined) features = available
  if (features.length === 0) {
    ledger.refuse(
      'policy.input_features',
      'It does not say which cameras the policy has, and the dataset is not at hand.',
      'Say it: --cameras front=observation.images.front,wrist=observation.images.wrist, or name the dataset on disk: --dataset.root.',
    )
    return undefined
  }
  const renamesPictures = features.some((feature) => renamed.has(feature))
  const map: Record<string, string> = {}
  const absent: string[] = []
  for (const feature of features) {
    const source = renamed.get(feature) ?? feature
    const there = available === undefined ? !renamesPictures || renamed.has(feature) : available.includes(source)
    if (there) map[cameraName(feature, map)] = source
    else absent.push(feature)
  }
  if (Object.keys(map).length === 0) {
    ledger.refuse(
      'policy.input_features',
      `No camera of the policy (${features.join(', ')}) is in the dataset (${(available ?? []).join(', ')}).`,
      'Say which is which: --cameras camera1=observation.images.front, or --rename_map.',
    )
    return undefined
  }
  if (absent.length > 0) {
    const what = `${absent.join(', ')} ${absent.length === 1 ? 'has' : 'have'} no picture in the data`
    if (available === undefined)
      ledger.assume('rename_map', `${what}, since rename_map does not name ${absent.length === 1 ? 'it' : 'them'}.`)
    ledger.note(
      'changed',
      'policy.input_features',
      `${what}: LeRobot accepts that without a word, and fills or skips the picture. Here the policy has the cameras that the data has.`,
      `${factory}; lerobot/policies/utils.py, validate_visual_features_consistency`,
    )
  }
  return done(map)
}

/** Pictures of the dataset that no camera sees. */
function unused(map: Readonly<Record<string, string>>, dataset: DatasetFeatures | undefined, ledger: Ledger): void {
  const seen = Object.values(map)
  const left = dataset === undefined ? [] : pictures(dataset).filter((feature) => !seen.includes(feature))
  if (left.length > 0)
    ledger.note(
      'ignored',
      'dataset.repo_id',
      `The dataset's ${left.join(', ')} ${left.length === 1 ? 'reaches' : 'reach'} no camera of the policy.`,
      factory,
    )
}

function pictures(dataset: DatasetFeatures): string[] {
  return Object.entries(dataset).flatMap(([name, { dtype }]) => (dtype === 'image' || dtype === 'video' ? [name] : []))
}

/** `observation.images.wrist.left` -> wrist_left; unlike all that are taken. */
function cameraName(feature: string, taken: Readonly<Record<string, string>>): string {
  const bare = feature.replace(/^observation\.images?\./, '').replace(/^observation\./, '')
  const name = bare.replace(/\W+/g, '_').replace(/^(?=\d)/, '_')
  let free = name
  for (let number = 2; free in taken; number++) free = `${name}_${String(number)}`
  return free
}
