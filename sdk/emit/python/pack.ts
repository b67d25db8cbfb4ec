/** pack.py: from a checkpoint to the declared packages, each verified in a fresh process. */
import { chunkOf, type Pipeline } from '../../plan/plan.ts'
import { need, projectPath, runFolder, writtenBy, type Project } from '../project.ts'
import { Document } from './document.ts'
import { call, dict, int, name, py, str, use, type Py } from './literal.ts'

const checkpoint = (imported: string): Py => use('vla_runtime.pack.checkpoint', imported)

/** The source, not yet formatted. */
export function packScript(project: Project): Document {
  const { pipeline } = project
  const run = runFolder(project)
  const example = `${run}/checkpoints/step-${String(pipeline.training.updates).padStart(8, '0')}`
  const document = new Document(
    "Turns a checkpoint into the declared packages, reloads each in a fresh process and compares its actions with the trainer's.\n\n" +
      `    python pack.py [--checkpoint ${example}] [--out packages]\n\n${writtenBy(project)}`,
  )
  document.blank()
  document.block(py`def main() -> None:`, (body) => {
    body.line(py`arguments = ${checkpoint('pack_arguments')}(run=${str(run)}, out=${str('packages')})`)
    body.line(
      py`checkpoint = ${checkpoint('open_checkpoint')}(arguments.checkpoint, ${use('model', 'build_model')}, ${use('train', 'MODULES')})`,
      pipeline.modules.some((module) => module.adapt !== null)
        ? 'the newest complete one by default; LoRA is merged'
        : 'the newest complete one by default',
    )
    for (const target of pipeline.exports) {
      body.line(pipeline.model.family === 'lerobot' ? policyTarget(project, target) : composedTarget(project, target))
    }
  })
  document.blank().blank()
  document.block(py`if __name__ == "__main__":`, (body) =>
    body.line(py`${use('vla_runtime.errors', 'run_or_explain')}(main)`),
  )
  return document
}

type Target = Pipeline['exports'][number]

function composedTarget(project: Project, target: Target): Py {
  const { pipeline } = project
  const { chunk } = chunkOf(pipeline.model)
  return call(use(`vla_runtime.pack.${target.kind}`, target.kind), [
    { value: name('checkpoint') },
    { value: py`arguments.out / ${str(target.kind)}` },
    { keyword: 'dtype', value: str(target.dtype) },
    target.kind === 'lerobot'
      ? {
          keyword: 'action_steps',
          value: int(pipeline.evaluate?.actionSteps ?? need(chunk, '/model/chunk')),
          comment: 'of a chunk, before the policy is asked again',
        }
      : undefined,
  ])
}

/** A LeRobot policy is packed as what it is: LeRobot's own directory. */
function policyTarget(project: Project, target: Target): Py {
  const { pipeline } = project
  const roots = pipeline.datasets.filter((dataset) => dataset.root !== null)
  return call(use('vla_runtime.pack.policy_directory', 'policy_directory'), [
    { value: name('checkpoint') },
    { value: use('model', 'POLICY') },
    { value: py`arguments.out / ${str(target.kind)}` },
    { keyword: 'dtype', value: str(target.dtype) },
    pipeline.evaluate === null
      ? undefined
      : {
          keyword: 'action_steps',
          value: int(pipeline.evaluate.actionSteps),
          comment: 'of a chunk, before the policy is asked again',
        },
    roots.length === 0
      ? undefined
      : {
          keyword: 'roots',
          value: dict(roots.map((dataset) => [dataset.name, str(projectPath(project, dataset.root ?? ''))])),
          comment: 'for the names of dimensions',
        },
  ])
}
