/** The length of a composed VLA's sequence. */
import type { ComposedPlanModel } from '../plan/plan.ts'
import type { RuleContext } from './rule.ts'

/** Tokens that the trunk sees of one sample, before the action's own. */
export function observedTokens(model: ComposedPlanModel, known: RuleContext<Record<string, string>>['known']): number {
  const { towers, fuse } = model.vision
  const perImage =
    model.projector.kind === 'spatialSoftArgmax'
      ? 1
      : fuse === 'sequence'
        ? towers.reduce((sum, tower) => sum + known(tower.tokens), 0)
        : known(towers[0]?.tokens ?? 0)
  return perImage * model.cameras.length + model.promptTokens + (isJoint(model) ? 0 : stateTokens(model, known))
}

/** Tokens of a joint action expert, whose positions continue behind the trunk's: the state and one for each action. */
export function expertTokens(model: ComposedPlanModel, known: RuleContext<Record<string, string>>['known']): number {
  return isJoint(model) ? stateTokens(model, known) + model.action.chunk : 0
}

function isJoint({ action }: ComposedPlanModel): boolean {
  return action.decoder === 'flowMatching' && action.attention === 'joint'
}

function stateTokens(model: ComposedPlanModel, known: RuleContext<Record<string, string>>['known']): number {
  return known(model.stateDim) > 0 ? 1 : 0
}

/** Tokens of the trunk's sequence that stand for actions. */
export function actionTokens(model: ComposedPlanModel, known: RuleContext<Record<string, string>>['known']): number {
  const { action } = model
  switch (action.decoder) {
    case 'tokens':
      return action.chunk * known(model.actionDim)
    case 'regression':
      return action.chunk * known(action.slots)
    case 'flowMatching':
      return 0
  }
}
