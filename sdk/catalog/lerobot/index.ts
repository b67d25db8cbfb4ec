/** The policies of LeRobot 0.6.1 that the catalog describes. */
import { act, actFields, actManaged } from './act.ts'
import { diffusion, diffusionFields, diffusionManaged } from './diffusion.ts'
import type { PolicyDescription, PolicyFacts, PolicyType } from './facts.ts'
import type { Fields, ManagedFields } from './fields.ts'
import { pi0, pi0Fields, pi0Managed } from './pi0.ts'
import { pi05, pi05Fields, pi05Managed } from './pi05.ts'
import { smolvla, smolvlaFields, smolvlaManaged } from './smolvla.ts'
import { xvla, xvlaFields, xvlaManaged } from './xvla.ts'

export interface PolicyFamily {
  /** What the policy is under a configuration. */
  readonly describe: (description: PolicyDescription) => PolicyFacts
  /** Fields of its configuration that a user sets. */
  readonly fields: Fields
  /** Fields of its configuration that the pipeline decides in its own words. */
  readonly managed: ManagedFields
}

export const policies: Readonly<Record<PolicyType, PolicyFamily>> = {
  act: { describe: act, fields: actFields, managed: actManaged },
  diffusion: { describe: diffusion, fields: diffusionFields, managed: diffusionManaged },
  smolvla: { describe: smolvla, fields: smolvlaFields, managed: smolvlaManaged },
  pi0: { describe: pi0, fields: pi0Fields, managed: pi0Managed },
  pi05: { describe: pi05, fields: pi05Fields, managed: pi05Managed },
  xvla: { describe: xvla, fields: xvlaFields, managed: xvlaManaged },
}

/** A policy's entry, or undefined for a type that the catalog does not describe. */
export function findPolicy(type: string): PolicyFamily | undefined {
  return Object.hasOwn(policies, type) ? policies[type as PolicyType] : undefined
}
