/** Arithmetic on what a GPU holds in any case: weights, gradients and optimizer state. No forecast: activations come on top. */
import type { Pipeline, PlanModule } from '../plan/plan.ts'
import type { RuleContext } from './rule.ts'

export const BYTES = { fp64: 8, fp32: 4, bf16: 2 } as const

type Known = RuleContext<Record<string, string>>['known']

/** Parameters that train in some phase, adapters included. A lower bound: of lastLayers(n) it is not counted which ones. */
function trainedCount(module: PlanModule, updates: number, known: Known): number {
  const trains = module.freeze.some(
    (phase, index) =>
      phase.trains === 'all' && phase.from < Math.min(module.freeze[index + 1]?.from ?? updates, updates),
  )
  if (!trains) return 0
  return module.adapt === null ? known(module.count) - known(module.deadCount) : known(module.adapterCount)
}

/** Bytes of the whole model's weights as stored, and of gradients and AdamW's two moments of what trains. */
export function stateBytes(
  plan: Pipeline,
  known: Known,
): { weights: number; gradients: number; moments: number; trained: number } {
  const sum = { weights: 0, gradients: 0, moments: 0, trained: 0 }
  for (const module of plan.modules) {
    const trained = trainedCount(module, plan.training.updates, known)
    const master = module.dtype === 'fp64' ? 8 : 4
    sum.weights +=
      module.adapt === null
        ? known(module.count) * BYTES[module.storage]
        : known(module.count) * BYTES[module.storage] + known(module.adapterCount) * master
    sum.gradients += trained * master
    sum.moments += 2 * trained * master
    sum.trained += trained
  }
  return sum
}
