/** preflight.py: what only the target machine can answer, with what the lock knew. */
import { isKnown, type Pipeline } from '../../plan/plan.ts'
import { bytesPhrase, projectPath, writtenBy, type Project } from '../project.ts'
import { pinned, requirementsFor } from '../requirements.ts'
import { Document } from './document.ts'
import { call, dict, float, int, list, name, none, py, str, use, type Argument, type Py } from './literal.ts'
import { localWeights } from './weights.ts'

/** The source, not yet formatted. */
export function preflightFile(project: Project): Document {
  const { pipeline, context, world } = project
  const document = new Document(
    `Checks that could only be made on the target. train.py runs them before anything is allocated on a device.\n\n${writtenBy(project)}`,
  )
  const check = (what: string): Py => py`${use('vla_runtime', 'preflight', 'check')}.${name(what)}`
  document.blank()
  document.block(py`def preflight(run: ${use('vla_runtime.run', 'Run')}) -> None:`, (body) => {
    body.line(py`"""Raises a UserError with everything that was found, the same on every rank."""`)
    const versions = requirementsFor(pipeline, context.templates.requirements).flatMap(
      (requirement): [string, Py][] => {
        const version = pinned(requirement)
        return version === undefined ? [] : [[requirement.name, str(version)]]
      },
    )
    body.line(py`${check('versions')}(run, ${dict(versions)})`)
    body.line(py`${check('world')}(run, processes=${int(world)})`)
    if (pipeline.hardware.kind === 'gpus') {
      const { gpu, memoryBytes } = pipeline.hardware
      body.line(
        py`${check('devices')}(run, gpu=${str(cudaName(gpu))}, memory_bytes=${isKnown(memoryBytes) ? int(memoryBytes) : none})`,
      )
    }
    for (const dataset of pipeline.datasets) {
      if (dataset.root === null) continue // on the hub: its own loader checks what it fetches
      const dimension = (value: number | { unknown: true }): Py => (typeof value === 'number' ? int(value) : none)
      const keyword = (key: string, value: Py): Argument => ({ keyword: key, value })
      const features = [
        ...Object.values(dataset.cameras).sort(),
        ...(dataset.state === null ? [] : [dataset.state]),
        dataset.action,
      ]
      body.line(
        call(check('dataset'), [
          { value: name('run') },
          { value: str(projectPath(project, dataset.root)) },
          keyword('features', list([...new Set(features)].map(str))),
          keyword('action', str(dataset.action)),
          keyword('action_dim', dimension(dataset.actionDim)),
          keyword('state', dataset.state === null ? none : str(dataset.state)),
          keyword('state_dim', dataset.state === null ? none : dimension(dataset.stateDim)),
          keyword('fps', isKnown(dataset.fps) ? float(dataset.fps) : none),
          keyword('fingerprint', isKnown(dataset.fingerprint) ? str(dataset.fingerprint) : none),
        ]),
      )
    }
    for (const source of localWeights(project)) body.line(py`${check('weights')}(run, ${str(source)})`)
    if (pipeline.model.family === 'lerobot')
      body.line(
        py`${use('vla_runtime.policies.processors', 'check_processors')}(run, ${use('model', 'POLICY')})`,
        'tokenizers and base files are at hand',
      )
    const bytes = checkpointBytes(pipeline)
    if (bytes !== undefined) {
      const { keep } = pipeline.checkpoint
      body.line(
        py`${check('disk_space')}(run, bytes_needed=${int(bytes * (keep + 1))})`,
        `${keep} checkpoints that are kept and the one being written, ${bytesPhrase(bytes)} each`,
      )
    }
    body.line(py`${check('report')}(run)`)
  })
  return document
}

/** The part of the catalog's name that CUDA's name of the device has too: `H100-SXM-80GB` -> `H100`, `RTX-4090` -> `RTX 4090`. */
export function cudaName(gpu: string): string {
  const parts = gpu.split('-')
  return parts.filter((part, index) => index === 0 || !/^(?:SXM\d*|PCIe|NVL|\d+GB)$/i.test(part)).join(' ')
}

const width = { fp64: 8, fp32: 4, bf16: 2 } as const

/** Bytes of one checkpoint: stored parameters, and two moments of whatever ever trains. Nothing where the plan does not know the sizes. */
export function checkpointBytes(pipeline: Pipeline): number | undefined {
  let bytes = 0
  for (const module of pipeline.modules) {
    const { count, deadCount, adapterCount } = module
    if (!isKnown(count) || !isKnown(deadCount) || !isKnown(adapterCount)) return undefined
    const master = module.dtype === 'fp64' ? 8 : 4
    const trains = module.freeze.some((phase) => phase.trains !== 'none')
    const trained = !trains ? 0 : module.adapt === null ? count - deadCount : adapterCount
    bytes += count * width[module.storage] + adapterCount * master + 2 * trained * master
  }
  return bytes
}
