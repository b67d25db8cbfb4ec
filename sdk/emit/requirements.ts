/** What a project needs of `templates/runtime/requirements.in`. */
import type { Pipeline } from '../plan/plan.ts'

export interface Requirement {
  readonly name: string
  readonly extras: readonly string[]
  /** `==2.11.*`; empty where any version in the lock will do. */
  readonly version: string
}

/** Only these lines concern our own tests. */
const ours = new Set(['pytest'])
/** Packages and extras that one feature needs. */
const feature: Readonly<Record<string, (pipeline: Pipeline) => boolean>> = {
  diffusion: (pipeline) => policyType(pipeline) === 'diffusion',
  metaworld: (pipeline) => pipeline.evaluate !== null,
  mujoco: (pipeline) => pipeline.evaluate !== null,
  peft: (pipeline) => pipeline.modules.some((module) => module.adapt !== null),
  pi: (pipeline) => ['pi0', 'pi05'].includes(policyType(pipeline) ?? ''),
  smolvla: (pipeline) => policyType(pipeline) === 'smolvla',
  tensorboard: (pipeline) => pipeline.track.some((tracker) => tracker.kind === 'tensorboard'),
  xvla: (pipeline) => policyType(pipeline) === 'xvla',
}

function policyType({ model }: Pipeline): string | undefined {
  return model.family === 'lerobot' ? model.type : undefined
}

/** The requirements of a pipeline, those of features that it does not use left out. */
export function requirementsFor(pipeline: Pipeline, requirements: string): Requirement[] {
  const wanted = (name: string): boolean => feature[name]?.(pipeline) ?? true
  return requirements
    .split('\n')
    .map((line) => /^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?\s*([=<>!~].*)?$/.exec(line.replace(/#.*/, '').trim()))
    .filter((match) => match !== null)
    .map(([, name = '', extras = '', version = '']) => ({
      name,
      extras: extras.split(',').map((extra) => extra.trim()),
      version: version.trim(),
    }))
    .map((requirement) => ({
      ...requirement,
      extras: requirement.extras.filter((extra) => extra !== '' && wanted(extra)),
    }))
    .filter(({ name }) => !ours.has(name) && wanted(name))
}

/** As pip writes it. */
export function requirementText({ name, extras, version }: Requirement): string {
  return `${name}${extras.length > 0 ? `[${extras.join(',')}]` : ''}${version}`
}

/** `==2.11.*` -> `2.11`; nothing where no one version is asked for. */
export function pinned({ version }: Requirement): string | undefined {
  return /^==\s*([0-9][0-9A-Za-z.]*?)(?:\.\*)?$/.exec(version)?.[1]
}
