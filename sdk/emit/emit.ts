/** Plan -> the files of a project. Pure: the same plan and context give the same bytes. */
import { canonicalFile } from '../plan/canonical.ts'
import type { Plan } from '../plan/plan.ts'
import type { EmitContext, EmittedFile, EmittedFiles } from './emitted.ts'
import { localScript } from './launch/local.ts'
import { slurmScript } from './launch/slurm.ts'
import { gitattributes, pyproject, readme } from './package.ts'
import type { Document } from './python/document.ts'
import { evaluateScript } from './python/evaluate.ts'
import { formatPython } from './python/format.ts'
import { hooksFile } from './python/hooks.ts'
import { modelFile } from './python/model.ts'
import { packScript } from './python/pack.ts'
import { preflightFile } from './python/preflight.ts'
import { trainScript } from './python/train.ts'
import { openProject, requireComplete } from './project.ts'
import { neededRuntime } from './runtime.ts'

/**
 * All files of the project that a plan describes, in the order of their paths, without the manifest (`writeProject` makes it).
 *
 * @throws {PlanIncomplete} where the plan leaves open what the project cannot be written without (the widths of action and state, say)
 * @throws {UnwritableValue} for text that no file can carry; the rules find it before
 */
export function emit(plan: Plan, context: EmitContext): EmittedFiles {
  const project = openProject(plan, context)
  requireComplete(project)
  const { pipeline } = plan
  const python = new Map<string, string>()
  const script = (path: string, document: Document): void => {
    python.set(path, formatPython(document.render(), path))
  }
  script('train.py', trainScript(project))
  script('model.py', modelFile(project))
  script('preflight.py', preflightFile(project))
  script('hooks.py', hooksFile())
  if (pipeline.exports.length > 0) script('pack.py', packScript(project))
  if (pipeline.evaluate !== null) script('evaluate.py', evaluateScript(project, pipeline.evaluate))

  const files = new Map<string, EmittedFile>()
  const managed = (path: string, content: string, executable = false): void => {
    files.set(path, { content, kind: 'managed', executable })
  }
  for (const [path, content] of python) files.set(path, { content, kind: path === 'hooks.py' ? 'scaffold' : 'managed' })
  for (const [path, content] of neededRuntime(context.templates.runtime, [...python.values()]))
    managed(`vla_runtime/${path}`, content)
  for (const launch of pipeline.launch) {
    if (launch.kind === 'torchrun') managed('launch/local.sh', localScript(project), true)
    else managed('launch/slurm.sbatch', slurmScript(project, launch))
  }
  managed('plan.json', canonicalFile(plan))
  managed('pyproject.toml', pyproject(project, [...python.keys()].sort()))
  managed('requirements.lock', context.templates.lock)
  managed('.gitattributes', gitattributes())
  managed('README.md', readme(project, new Set(files.keys())))
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)))
}
