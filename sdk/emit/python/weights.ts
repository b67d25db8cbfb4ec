/** Where weights come from, as the scripts name it. */
import { projectPath, projectSource, type Project } from '../project.ts'

/** Files and folders with weights that must be on the target, each once. */
export function localWeights(project: Project): string[] {
  const { model } = project.pipeline
  const found = new Set<string>()
  const add = (source: string): void => {
    const path = projectSource(project, source)
    if (path === projectPath(project, source)) found.add(path)
  }
  if (model.weights !== null) add(model.weights.source)
  for (const tower of model.vision.towers) if (tower.weights !== null) add(tower.weights)
  return [...found]
}
