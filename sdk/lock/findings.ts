/** The findings of this room: what can be wrong with the datasets and weights that a declaration names. */
import type { DeclarationPath, Finding, Severity } from '../finding/finding.ts'

/** What is always the same about a finding of the lock; `vla explain` and the rule documentation print it. */
export interface LockRule {
  readonly id: string
  readonly title: string
  readonly severity: Severity
  /** What it means and why it matters, for `vla explain`. */
  readonly prose: string
  /** What happens when it is ignored; one sentence. */
  readonly why: string
}

export const lockRules = {
  VLA020: {
    id: 'VLA020',
    title: 'Dataset not found',
    severity: 'error',
    prose:
      'The folder given as `root` does not exist, or holds no LeRobot dataset, and vla.lock.json has no entry for it either. ' +
      'Widths, camera sizes and statistics are then unknown. For a dataset that is named by `repo` alone this is only said as ' +
      'information: nothing is downloaded while checking.',
    why: 'Without the dataset neither the widths of the policy nor its normalisation are known.',
  },
  VLA021: {
    id: 'VLA021',
    title: 'Dataset unreadable',
    severity: 'error',
    prose:
      'A file of the dataset is missing, cut off or not what it should be. A Parquet file without its footer comes from a recording ' +
      'that ended before `finalize()`: LeRobot writes the footer only then.',
    why: 'The run would stop when it opens the file, or train on part of the data.',
  },
  VLA022: {
    id: 'VLA022',
    title: 'Dataset empty',
    severity: 'error',
    prose:
      'The metadata says zero episodes or zero frames. `save_episode()` was never called, or its episodes were deleted.',
    why: 'There is nothing to train on.',
  },
  VLA023: {
    id: 'VLA023',
    title: 'Lock disagrees with the data at hand',
    severity: 'error',
    prose:
      'vla.lock.json describes another state of the dataset or the weights than the one on this machine. The plan is made from the ' +
      'lock, so it would normalise with statistics of data that is no longer there.',
    why: 'Statistics and shapes in the plan would be those of other data.',
  },
  VLA024: {
    id: 'VLA024',
    title: 'Weights unreadable',
    severity: 'error',
    prose:
      'The weights directory does not exist, a file of it is cut off, or the weights are a pickle (.bin, .pt), which cannot be looked ' +
      'at without running what it holds. For weights that are named by a hub id this is only said as information: nothing is ' +
      'downloaded while checking.',
    why: 'The run would stop while loading, after the cluster has been allocated.',
  },
  VLA025: {
    id: 'VLA025',
    title: 'Feature missing from the dataset',
    severity: 'error',
    prose:
      'The dataset has no feature of the name that the declaration gives for the actions or the proprioception, or it is no vector.',
    why: 'The samples would have no action (or state) to train on.',
  },
  VLA026: {
    id: 'VLA026',
    title: 'Not a LeRobot v3 dataset',
    severity: 'error',
    prose:
      'LeRobot 0.4 and later read datasets of version 3.0 only. `python -m lerobot.scripts.convert_dataset_v21_to_v30` converts a ' +
      'version 2.1 dataset.',
    why: 'LeRobot refuses the dataset when the run starts.',
  },
  VLA027: {
    id: 'VLA027',
    title: 'Lock file unreadable',
    severity: 'error',
    prose:
      'vla.lock.json is not valid JSON, or not of the published schema (schemas/lock.schema.json): a merge conflict, or a newer vla wrote it.',
    why: 'Nothing in it can be used, so the plan would know neither widths nor statistics.',
  },
  VLA028: {
    id: 'VLA028',
    title: 'Weights do not fit the model',
    severity: 'error',
    prose:
      'The tensor names and shapes in the weights directory are not those of the declared model. Nothing is loaded by approximate name: ' +
      'a tensor that is skipped would leave its layer at random values.',
    why: 'The run would stop when it audits the weights, before anything is allocated.',
  },
} as const satisfies Record<string, LockRule>

export type LockFindingId = keyof typeof lockRules

/** What it means that something could not be looked at. */
const notSeen = 'Rules that need it cannot judge here: a mistake in it would show only on the target.'

/** A finding of this room. */
export function lockFinding(
  id: LockFindingId,
  path: DeclarationPath,
  message: string,
  fix: string,
  severity: Severity = lockRules[id].severity,
): Finding {
  const why = severity === 'info' ? notSeen : lockRules[id].why
  return { id, severity, message, why, fix, path, at: 'value', related: [], fixes: [] }
}
