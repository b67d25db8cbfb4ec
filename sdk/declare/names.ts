/** What the schemas cannot see: names that other parts of the declaration, or the catalog, define. Works on half-broken declarations. */
import { gpuNames } from '../catalog/gpus.ts'
import { baseFields, type ManagedFields } from '../catalog/lerobot/fields.ts'
import { findPolicy } from '../catalog/lerobot/index.ts'
import { findLoop } from '../catalog/lerobot/loop.ts'
import { registeredTypes } from '../catalog/lerobot/registered.ts'
import type { DeclarationPath, Finding, Fix } from '../finding/finding.ts'
import { declareFinding, renameFix, setFix } from './findings.ts'
import { keysAt, listAt, pathText, valueAt } from './plain.ts'
import { policyTypes } from './policies.ts'
import { suggest } from './suggest.ts'

/** Names of a model's modules; undefined where the model says too little. */
function moduleNames(root: unknown): readonly string[] | undefined {
  const kind = valueAt(root, ['model', 'kind'])
  if (policyType(root) !== undefined) return policyModules(root)
  const decoder = valueAt(root, ['model', 'action', 'kind']) ?? (kind === 'openvla' ? 'tokens' : undefined)
  if (typeof decoder !== 'string') return undefined
  return ['vision', 'projector', 'language', ...(decoder === 'tokens' ? [] : ['action'])]
}

/** Names of a model's camera slots; undefined where the model says too little. */
function cameraNames(root: unknown): readonly string[] | undefined {
  if (valueAt(root, ['model', 'kind']) === 'openvla') return ['primary']
  const names = listAt(root, ['model', 'cameras']).filter((name) => typeof name === 'string')
  const published = findLoop(policyType(root) ?? '')?.cameras ?? []
  return names.length > 0 ? names : published.length > 0 ? published : undefined
}

/** LeRobot's name of the declared policy. */
function policyType(root: unknown): string | undefined {
  const kind = valueAt(root, ['model', 'kind'])
  const type = kind === 'lerobotPolicy' ? valueAt(root, ['model', 'type']) : kind
  const isPolicy = kind === 'lerobotPolicy' || policyTypes.some((own) => own === kind)
  return isPolicy && typeof type === 'string' ? type : undefined
}

function policyModules(root: unknown): readonly string[] | undefined {
  const own = keysAt(root, ['model', 'modules'])
  if (own.length > 0) return own
  const config = valueAt(root, ['model', 'config'])
  const open = { unknown: true } as const
  return findPolicy(policyType(root) ?? '')
    ?.describe({
      config: typeof config === 'object' && config !== null ? (config as Readonly<Record<string, unknown>>) : {},
      cameras: cameraNames(root) ?? [],
      imageSizes: open,
      stateDim: open,
      actionDim: open,
    })
    .modules.map(({ name }) => name)
}

function unknownNames(
  id: 'VLA001' | 'VLA006',
  what: string,
  root: unknown,
  path: DeclarationPath,
  names: readonly string[] | undefined,
): Finding[] {
  if (names === undefined) return []
  const written = keysAt(root, path)
  const free = names.filter((name) => !written.includes(name))
  const all = names.map((name) => `'${name}'`).join(', ')
  return written
    .filter((key) => !names.includes(key))
    .map((key) => {
      const meant = suggest(key, free)
      const message = `This model has no ${what} '${key}'; it has ${all}.`
      const fix = meant === undefined ? `Use one of ${all}.` : `Did you mean '${meant}'?`
      return declareFinding(
        id,
        [...path, key],
        'key',
        message,
        fix,
        meant === undefined ? undefined : renameFix([...path, key], meant),
      )
    })
}

function pipelineName(root: unknown): Finding[] {
  const name = valueAt(root, ['name'])
  if (typeof name !== 'string' || name === '' || /^[a-z0-9][a-z0-9-]*$/.test(name)) return []
  const better = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
  const fix = `Use small letters, digits and hyphens${better === '' ? '' : `: '${better}'`}.`
  return [
    declareFinding(
      'VLA008',
      ['name'],
      'value',
      `The name '${name}' is not allowed.`,
      fix,
      better === '' ? undefined : setFix(['name'], better),
    ),
  ]
}

function cameraSlots(root: unknown): Finding[] {
  const cameras = listAt(root, ['model', 'cameras'])
  return cameras.flatMap((camera, index) => {
    if (typeof camera !== 'string' || camera === '') return []
    const path = ['model', 'cameras', index]
    if (!/^[A-Za-z_]\w*$/.test(camera)) {
      const fix = 'Use letters, digits and underscores, beginning with a letter.'
      return [declareFinding('VLA008', path, 'value', `The camera name '${camera}' is not allowed.`, fix)]
    }
    if (cameras.indexOf(camera) === index) return []
    return [
      declareFinding(
        'VLA008',
        path,
        'value',
        `The camera '${camera}' is listed twice.`,
        'Give each camera its own name.',
      ),
    ]
  })
}

function gpuName(root: unknown): Finding[] {
  const gpu = valueAt(root, ['hardware', 'gpu'])
  if (valueAt(root, ['hardware', 'kind']) !== 'gpus' || typeof gpu !== 'string' || gpuNames.includes(gpu)) return []
  const { meant, fix } = likelyGpu(gpu)
  const path = ['hardware', 'gpu']
  return [
    declareFinding(
      'VLA005',
      path,
      'value',
      `The catalog has no GPU '${gpu}'.`,
      fix,
      meant === undefined ? undefined : setFix(path, meant),
    ),
  ]
}

/** What an unknown GPU stands for: a name that it is a part of, or one that it is a misspelling of. */
export function likelyGpu(gpu: string): { readonly meant: string | undefined; readonly fix: string } {
  const near = gpu === '' ? [] : gpuNames.filter((known) => known.toLowerCase().includes(gpu.toLowerCase()))
  const meant = near.length === 0 ? suggest(gpu, gpuNames) : near.length === 1 ? near[0] : undefined
  const fix =
    meant === undefined ? `Use one of ${(near.length > 0 ? near : gpuNames).join(', ')}.` : `Did you mean '${meant}'?`
  return { meant, fix }
}

/** A policy of LeRobot's that LeRobot does not have. */
function policyName(root: unknown): Finding[] {
  const type = policyType(root)
  if (type === undefined || valueAt(root, ['model', 'kind']) !== 'lerobotPolicy') return []
  if (valueAt(root, ['model', 'plugin']) !== undefined || registeredTypes.some((known) => known === type)) return []
  const path = ['model', 'type']
  const meant = suggest(type, registeredTypes)
  const known = meant === undefined ? `It has ${registeredTypes.join(', ')}.` : `Did you mean '${meant}'?`
  return [
    declareFinding(
      'VLA003',
      path,
      'value',
      `LeRobot 0.6.1 has no policy '${type}', and no plugin that registers one is named.`,
      `${known} A plugin's policy needs its package: plugin: 'lerobot_policy_mine'.`,
      meant === undefined ? undefined : setFix(path, meant),
    ),
  ]
}

/** Fields of a policy's configuration that it does not have, or that are said elsewhere. */
function policyConfig(root: unknown): Finding[] {
  const type = policyType(root)
  const family = findPolicy(type ?? '')
  const keys = keysAt(root, ['model', 'config'])
  const managed: ManagedFields = { ...baseFields, ...family?.managed }
  const chunkField = valueAt(root, ['model', 'chunk']) === undefined ? undefined : findLoop(type ?? '')?.chunkField
  return keys.flatMap((key) => {
    const path = ['model', 'config', key]
    const told = (message: string, fix: string, offered?: Fix): Finding[] => [
      declareFinding('VLA002', path, 'key', message, fix, offered),
    ]
    if (Object.hasOwn(managed, key))
      return told(
        `'${key}' is no field of config here: ${managed[key]?.by ?? ''}.`,
        'Say it there, and remove it here.',
      )
    if (key === chunkField)
      return told(`'${key}' is what \`chunk\` of the model says.`, 'Remove it, or say it as `chunk` alone.')
    if (family === undefined || Object.hasOwn(family.fields, key)) return []
    const meant = suggest(
      key,
      Object.keys(family.fields).filter((name) => !keys.includes(name)),
    )
    return told(
      `The configuration of ${type ?? ''} in LeRobot 0.6.1 has no field '${key}'.`,
      meant === undefined ? 'Remove it: LeRobot refuses to read it.' : `Did you mean '${meant}'?`,
      meant === undefined ? undefined : renameFix(path, meant),
    )
  })
}

/** A dataset that says neither where it is nor what it is called. */
function placeless(root: unknown, path: DeclarationPath): Finding[] {
  const isDataset = valueAt(root, [...path, 'kind']) === 'lerobotDataset'
  if (!isDataset || ['repo', 'root'].some((key) => valueAt(root, [...path, key]) !== undefined)) return []
  const message = `${pathText(path)} has neither 'repo' nor 'root'.`
  return [
    declareFinding('VLA004', path, 'value', message, "Add 'root' for a local directory, or 'repo' for one on the hub."),
  ]
}

/** Unknown modules, cameras and GPUs, names that are not allowed, datasets without a place. */
export function nameFindings(root: unknown): Finding[] {
  const cameras = cameraNames(root)
  const entries = listAt(root, ['data'])
  return [
    ...pipelineName(root),
    ...cameraSlots(root),
    ...unknownNames('VLA001', 'module', root, ['modules'], moduleNames(root)),
    ...unknownNames('VLA006', 'camera', root, ['cameras'], cameras),
    ...entries.flatMap((_, index) => unknownNames('VLA006', 'camera', root, ['data', index, 'cameras'], cameras)),
    ...policyName(root),
    ...policyConfig(root),
    ...gpuName(root),
    ...placeless(root, ['data']),
    ...entries.flatMap((_, index) => placeless(root, ['data', index, 'from'])),
  ]
}
