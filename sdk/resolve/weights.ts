/** Whether the weights that the lock describes are those of the model. */
import type { ModuleFacts } from '../catalog/model.ts'
import type { Finding } from '../finding/finding.ts'
import { lockFinding } from '../lock/findings.ts'
import type { Lock } from '../lock/lock.ts'
import type { PlanModel } from '../plan/plan.ts'
import { lockedWeights } from './model.ts'

/** Compares names and shapes, where both the lock and the catalog know them. Parts that begin anew (a regression head) may be absent. */
export function auditWeights(model: PlanModel, facts: readonly ModuleFacts[], lock: Lock | undefined): Finding[] {
  const { weights } = model
  const locked = weights === null ? undefined : lockedWeights(lock, weights.source, weights.revision ?? undefined)
  if (weights === null || locked === undefined || Object.keys(locked.tensors).length === 0) return []
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
    else if (found.shape.join() !== shape.join())
      problems.push(`'${name}' is [${found.shape.join(', ')}], expected [${shape.join(', ')}]`)
  }
  // A decoder without language head leaves the head of the checkpoint unread.
  const headless = weights.layout === 'openvla' && model.family !== 'lerobot' && model.action.decoder !== 'tokens'
  for (const name of Object.keys(locked.tensors)) {
    if (!wanted.has(name) && !(headless && name.startsWith('language_model.lm_head.')))
      problems.push(`'${name}' belongs to nothing`)
  }
  if (problems.length === 0) return []
  const shown = problems.slice(0, 3).join('; ')
  const more = problems.length > 3 ? `; and ${String(problems.length - 3)} more` : ''
  return [
    lockFinding(
      'VLA028',
      ['model', 'weights'],
      `The weights at '${weights.source}' are not those of this model: ${shown}${more}.`,
      weights.layout === 'openvla'
        ? 'Give a directory in the layout of openvla/openvla-7b; other checkpoints need their own `composed(...)`.'
        : 'Give an `hf` package of this very architecture.',
    ),
  ]
}
