/** pack.py: from a checkpoint to the declared packages, each verified in a fresh process. */
import { isKnown } from '../../plan/plan.ts'
import { runFolder, writtenBy, type Project } from '../project.ts'
import { Document } from './document.ts'
import { call, float, name, none, py, str, use, type Py } from './literal.ts'

const pack = (imported: string): Py => use('vla_runtime.pack', imported)

/** The source, not yet formatted. */
export function packScript(project: Project): Document {
  const { pipeline } = project
  const run = runFolder(project)
  const example = `${run}/checkpoints/step-${String(pipeline.training.updates).padStart(8, '0')}`
  const document = new Document(
    'Turns a checkpoint into the declared packages, reloads each in a fresh process and compares its actions with the trainer\'s.\n\n' +
      `    python pack.py [--checkpoint ${example}] [--out packages]\n\n${writtenBy(project)}`,
  )
  document.blank()
  document.block(py`def main() -> None:`, (body) => {
    body.line(py`arguments = ${pack('pack_arguments')}(run=${str(run)}, out=${str('packages')})`)
    body.line(
      py`checkpoint = ${pack('open_checkpoint')}(arguments.checkpoint, ${use('model', 'build_model')}, ${use('train', 'MODULES')})`,
      pipeline.modules.some((module) => module.adapt !== null) ? 'the newest complete one by default; LoRA is merged' : 'the newest complete one by default',
    )
    for (const target of pipeline.exports) {
      const fps = pipeline.datasets[0]?.fps
      body.line(
        call(pack(target.kind), [
          { value: name('checkpoint') },
          { value: py`arguments.out / ${str(target.kind)}` },
          { keyword: 'config', value: use('model', 'CONFIG') },
          { keyword: 'dtype', value: str(target.dtype) },
          ...(target.kind === 'lerobot'
            ? [
                { keyword: 'name', value: str(pipeline.name) },
                { keyword: 'fps', value: fps !== undefined && isKnown(fps) ? float(fps) : none },
              ]
            : []),
        ]),
      )
    }
  })
  document.blank().blank()
  document.block(py`if __name__ == "__main__":`, (body) => body.line(py`${use('vla_runtime.errors', 'run_or_explain')}(main)`))
  return document
}

