/** evaluate.py: rollouts of the packaged policy in the declared simulator. */
import type { Pipeline } from '../../plan/plan.ts'
import { projectPath, writtenBy, type Project } from '../project.ts'
import { Document } from './document.ts'
import { call, int, list, name, none, py, str, use } from './literal.ts'

/** The source, not yet formatted. */
export function evaluateScript(project: Project, evaluate: NonNullable<Pipeline['evaluate']>): Document {
  const { pipeline } = project
  const camera = pipeline.model.cameras[0] ?? ''
  const packages = pipeline.exports.map((target) => target.kind)
  const policy = `packages/${packages.includes('lerobot') ? 'lerobot' : (packages[0] ?? 'hf')}`
  const document = new Document(
    'Rolls the packaged policy out in MetaWorld, in the rendering that it was trained on.\n\n' +
      `    python evaluate.py [--package ${policy}] [--ablate image|instruction|action] [--episodes ${evaluate.episodes}]\n\n${writtenBy(project)}`,
  )
  document.blank()
  document.block(py`def main() -> None:`, (body) => {
    body.line(
      py`arguments = ${use('vla_runtime.rollout', 'rollout_arguments')}(package=${str(policy)}, out=${str('evaluation')})`,
    )
    body.line(
      call(use('vla_runtime.rollout', 'evaluate'), [
        { value: name('arguments') },
        { keyword: 'tasks', value: list(evaluate.tasks.map(str)) },
        {
          keyword: 'episodes',
          value: int(evaluate.episodes),
          comment: `seeds ${evaluate.firstSeed} to ${evaluate.firstSeed + evaluate.episodes - 1} of each task`,
        },
        { keyword: 'first_seed', value: int(evaluate.firstSeed) },
        { keyword: 'max_steps', value: int(evaluate.maxSteps) },
        { keyword: 'image_size', value: int(evaluate.imageSize), comment: 'as recorded' },
        {
          keyword: 'action_steps',
          value: int(evaluate.actionSteps),
          comment: 'of a chunk, before the policy is asked again',
        },
        { keyword: 'camera', value: str(camera) },
        {
          keyword: 'datasets',
          value: list(
            pipeline.datasets.map((dataset) =>
              call(use('vla_runtime.rollout', 'Recording'), [
                { value: str(dataset.name) },
                { keyword: 'root', value: dataset.root === null ? none : str(projectPath(project, dataset.root)) },
                { keyword: 'image_feature', value: str(dataset.cameras[camera] ?? '') },
              ]),
            ),
          ),
          comment: "their first frames must equal the simulator's",
        },
      ]),
    )
  })
  document.blank().blank()
  document.block(py`if __name__ == "__main__":`, (body) =>
    body.line(py`${use('vla_runtime.errors', 'run_or_explain')}(main)`),
  )
  return document
}
