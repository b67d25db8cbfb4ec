/** Whether the weights that the lock describes are those of the model. */
import type { ModuleFacts } from '../catalog/model.ts'
import { fnmatch } from '../catalog/parameters.ts'
import type { Finding } from '../finding/finding.ts'
import { lockFinding } from '../lock/findings.ts'
import type { Lock } from '../lock/lock.ts'
import type { PlanModel, PolicyPlanModel } from '../plan/plan.ts'
import { lockedWeights } from './model.ts'
import { policyFacts } from './policy.ts'

/** Compares names and shapes, where both the lock and the catalog know them. Parts that begin anew (a regression head) may be absent. */
export function auditWeights(model: PlanModel, facts: readonly ModuleFacts[], lock: Lock | undefined): Finding[] {
  const { weights } = model
  const locked = weights === null ? undefined : lockedWeights(lock, weights.source, weights.revision ?? undefined)
  if (weights === null || locked === undefined || Object.keys(locked.tensors).length === 0) return []
  if (model.family === 'lerobot')
    return finding(
      weights.source,
      policyProblems(model, facts, locked.tensors),
      `Give the directory of a policy of type '${model.type}' with this configuration, as LeRobot saves it.`,
    )
  const wanted = new Map<string, readonly number[]>()
  for (const { name, parameters } of facts) {
    if (parameters === undefined) return []
    if (weights.layout === 'openvla' && name === 'action') continue
    for (const parameter of parameters) wanted.set(parameter.name, parameter.shape)
  }
  const problems: string[] = []
  for (const [name, shape] of wanted) {
    const found = Object.hasOwn(locked.tensors, name) ? locked.tensors[name] : undefined
    if (found === undefined) problems.push(`'${name}' is missing`)
    else problems.push(...otherShape(name, found.shape, shape))
  }
  // A decoder without language head leaves the head of the checkpoint unread.
  const headless = weights.layout === 'openvla' && model.action.decoder !== 'tokens'
  for (const name of Object.keys(locked.tensors)) {
    if (!wanted.has(name) && !(headless && name.startsWith('language_model.lm_head.')))
      problems.push(`'${name}' belongs to nothing`)
  }
  return finding(
    weights.source,
    problems,
    weights.layout === 'openvla'
      ? 'Give a directory in the layout of openvla/openvla-7b; other checkpoints need their own `composed(...)`.'
      : 'Give an `hf` package of this very architecture.',
  )
}

function finding(source: string, problems: readonly string[], fix: string): Finding[] {
  if (problems.length === 0) return []
  const shown = problems.slice(0, 3).join('; ')
  const more = problems.length > 3 ? `; and ${String(problems.length - 3)} more` : ''
  const message = `The weights at '${source}' are not those of this model: ${shown}${more}.`
  return [lockFinding('VLA028', ['model', 'weights'], message, fix)]
}

function otherShape(name: string, found: readonly number[], expected: readonly number[]): string[] {
  if (found.join() === expected.join()) return []
  return [`'${name}' is [${found.join(', ')}], expected [${expected.join(', ')}]`]
}

/** A LeRobot policy's file: its parameters and buffers, with the differences that are known to do no harm. */
function policyProblems(
  model: PolicyPlanModel,
  modules: readonly ModuleFacts[],
  tensors: Readonly<Record<string, { readonly shape: readonly number[] }>>,
): string[] {
  const facts = policyFacts(model)
  if (facts === undefined || modules.some(({ parameters }) => parameters === undefined)) return []
  // The runtime translates the names of X-VLA's first release.
  if (model.type === 'xvla' && Object.hasOwn(tensors, 'model.vlm.image_projection')) return []
  const parameters = facts.modules.flatMap((module) => module.parameters ?? [])
  const buffers = facts.modules.flatMap((module) => module.buffers ?? [])
  if (facts.modules.some((module) => module.parameters === undefined || module.buffers === undefined)) return []
  const { missing, unexpected, tied } = facts.weights
  const besides = unexpected.map(({ pattern }) => fnmatch(pattern))
  // openpi's files name the model's parts without the policy around them.
  const bare = model.type === 'pi0' || model.type === 'pi05'
  const named = new Map(
    Object.entries(tensors).map(([key, { shape }]) => [
      bare && !/^(model\.|(un)?normalize_)/.test(key) ? `model.${key}` : key,
      shape,
    ]),
  )
  const problems: string[] = []
  for (const { name, shape } of parameters) {
    const found = named.get(name)
    const rule = missing.find(({ key }) => key === name)
    const isElsewhere = tied.some((group) => group.includes(name) && group.some((other) => named.has(other)))
    const mayMiss = isElsewhere || (rule !== undefined && (rule.from === undefined || named.has(rule.from)))
    if (found !== undefined) problems.push(...otherShape(name, found, shape))
    else if (!mayMiss) problems.push(`'${name}' is missing`)
  }
  const known = new Set([...parameters, ...buffers].map(({ name }) => name))
  const allowed = new Set([...missing.map(({ key }) => key), ...tied.flat()])
  for (const name of named.keys())
    if (!known.has(name) && !allowed.has(name) && !besides.some((pattern) => pattern.test(name)))
      problems.push(`'${name}' belongs to nothing`)
  return problems
}
