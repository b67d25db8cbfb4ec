/** Where weights come from, as the scripts name it. */
import { isLocalPath, projectSource, type Project } from '../project.ts'

/** Pretrained weights for the whole model (`part` empty) or for a submodule of it. */
export interface Weights {
  readonly source: string
  readonly revision: string | null
  readonly part: string
  /** Patterns of the model's names that the files do not hold. */
  readonly missing: readonly string[]
  /** Patterns of names in the files that the model has no place for. */
  readonly unexpected: readonly string[]
}

/** All of a model's sources of weights, as seen from the project's folder. */
export function weightsOf(project: Project): Weights[] {
  const { model } = project.pipeline
  if (model.family === 'lerobot') {
    if (model.weights === null) return []
    const { source, revision } = model.weights
    return [{ source: projectSource(project, source), revision, part: '', missing: [], unexpected: [] }]
  }
  if (model.weights !== null) {
    const foreign = model.weights.layout === 'openvla' // knows action tokens and no proprioception
    const head = foreign && model.action.decoder !== 'tokens'
    const state = foreign && model.stateDim !== 0
    return [
      {
        source: projectSource(project, model.weights.source),
        revision: model.weights.revision,
        part: '',
        missing: [...(head ? ['action_head.*'] : []), ...(state ? ['state_projector.*'] : [])],
        unexpected: head ? ['language_model.lm_head.weight'] : [],
      },
    ]
  }
  const parts: Weights[] = []
  const add = (source: string, revision: string | null, part: string): void => {
    parts.push({ source: projectSource(project, source), revision, part, missing: [], unexpected: [] })
  }
  model.vision.towers.forEach((tower, index) => {
    if (tower.weights !== null) add(tower.weights, tower.revision, `vision_backbone.${towerName(index)}`)
  })
  if (model.language.source === 'pretrained' && model.language.name !== null) {
    add(model.language.name, model.language.revision, 'language_model')
  }
  return parts
}

/** Files and folders with weights that must be on the target, each once. */
export function localWeights(project: Project): string[] {
  return [...new Set(weightsOf(project).flatMap(({ source }) => (isLocalPath(source) ? [source] : [])))]
}

/** OpenVLA's names for the towers of a fused backbone. */
function towerName(index: number): string {
  return index === 0 ? 'featurizer' : index === 1 ? 'fused_featurizer' : `fused_featurizer_${index}`
}
