/** pack.py: from a checkpoint to the declared packages, each verified in a fresh process. */
import { chunkOf } from '../../plan/plan.ts'
import { need, runFolder, writtenBy, type Project } from '../project.ts'
import { Document } from './document.ts'
import { call, int, name, py, str, use, type Py } from './literal.ts'

const pack = (imported: string): Py => use('vla_runtime.pack', imported)

/** The source, not yet formatted. */
export function packScript(project: Project): Document {
  const { pipeline } = project
  const run = runFolder(project)
  const { chunk } = chunkOf(pipeline.model)
  const example = `${run}/checkpoints/step-${String(pipeline.training.updates).padStart(8, '0')}`
  const document = new Document(
    "Turns a checkpoint into the declared packages, reloads each in a fresh process and compares its actions with the trainer's.\n\n" +
      `    python pack.py [--checkpoint ${example}] [--out packages]\n\n${writtenBy(project)}`,
  )
  document.blank()
  document.block(py`def main() -> None:`, (body) => {
    body.line(py`arguments = ${pack('pack_arguments')}(run=${str(run)}, out=${str('packages')})`)
    body.line(
      py`checkpoint = ${pack('open_checkpoint')}(arguments.checkpoint, ${use('model', 'build_model')}, ${use('train', 'MODULES')})`,
      pipeline.modules.some((module) => module.adapt !== null)
        ? 'the newest complete one by default; LoRA is merged'
        : 'the newest complete one by default',
    )
    for (const target of pipeline.exports) {
      body.line(
        call(pack(target.kind), [
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
        ]),
      )
    }
  })
  document.blank().blank()
  document.block(py`if __name__ == "__main__":`, (body) =>
    body.line(py`${use('vla_runtime.errors', 'run_or_explain')}(main)`),
  )
  return document
}
