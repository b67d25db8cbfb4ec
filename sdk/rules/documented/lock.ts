/** Pages of the findings about what the lock describes (sdk/lock/findings.ts). They have no check here. */
import type { RuleEntry } from '../rule.ts'

const common = {
  area: 'lock',
  severity: 'error',
  since: '0.1.0',
  suppress: { allowed: false, because: 'Nothing could stand in for what is not known.' },
} as const

export const lockEntries: readonly RuleEntry[] = [
  {
    ...common,
    id: 'VLA020',
    name: 'dataset-not-found',
    summary: 'The dataset is at hand, or vla.lock.json knows it.',
    why: 'Without the dataset neither the widths of the policy nor its normalisation are known. For a dataset that is named by `repo` alone this is only said as information: nothing is downloaded while checking.',
    fix: 'Correct `root`, which is relative to pipeline.ts, or download the dataset; then run `vla lock`.',
    sources: [
      {
        title: 'LeRobot 0.6.1',
        at: 'lerobot/datasets/dataset_metadata.py',
        locator: 'LeRobotDatasetMetadata: meta/info.json',
      },
    ],
  },
  {
    ...common,
    id: 'VLA021',
    name: 'dataset-unreadable',
    summary: 'Every file of the dataset is whole.',
    why: 'The run would stop when it opens the file, or train on part of the data. A Parquet file without its footer comes from a recording that ended before `finalize()`.',
    fix: 'Copy the file again; where the recording was never finalised, record it again.',
    sources: [
      {
        title: 'LeRobot issue 2529',
        at: 'https://github.com/huggingface/lerobot/issues/2529',
        locator: 'parquet footer missing: finalize() was not called',
      },
    ],
  },
  {
    ...common,
    id: 'VLA022',
    name: 'dataset-empty',
    summary: 'The dataset has episodes and frames.',
    why: 'There is nothing to train on. save_episode() was never called, or the episodes were deleted.',
    fix: 'Record episodes.',
    sources: [{ title: 'LeRobot 0.6.1', at: 'lerobot/datasets/lerobot_dataset.py', locator: 'save_episode' }],
  },
  {
    ...common,
    id: 'VLA023',
    name: 'lock-disagrees',
    summary: 'vla.lock.json describes the data and the weights that are at hand.',
    why: 'The plan is made from the lock: statistics and shapes in it would be those of other data.',
    fix: 'Run `vla lock` if what is at hand is meant; else put back what the lock describes.',
    sources: [
      {
        title: 'OpenVLA',
        at: 'openvla/prismatic/vla/datasets/rlds/utils/data_utils.py',
        locator: 'get_dataset_statistics: cached under a hash that an edit in place does not change',
      },
    ],
  },
  {
    ...common,
    id: 'VLA024',
    name: 'weights-unreadable',
    summary: 'The weights are there, whole, and safetensors.',
    why: 'The run would stop while loading, after the cluster has been allocated. A pickle (.bin, .pt) cannot be looked at without running what it holds. For weights that are named by a hub id this is only said as information.',
    fix: 'Correct the path, copy the file again, or convert the weights to safetensors.',
    sources: [
      {
        title: 'safetensors',
        at: 'https://github.com/huggingface/safetensors',
        locator: 'Format: header with names, shapes and offsets',
      },
    ],
  },
  {
    ...common,
    id: 'VLA025',
    name: 'feature-missing',
    summary: 'The dataset has the state and action features that are named, as vectors.',
    why: 'The samples would have no action (or state) to train on.',
    fix: 'Name a feature of the dataset: `state` and `action` of lerobotDataset.',
    sources: [
      {
        title: 'LeRobot issue 3181',
        at: 'https://github.com/huggingface/lerobot/issues/3181',
        locator: 'features of dataset and policy do not match',
      },
    ],
  },
  {
    ...common,
    id: 'VLA026',
    name: 'dataset-version',
    summary: 'The dataset is a LeRobot dataset of version 3.',
    why: 'LeRobot 0.4 and later read version 3.0 only and refuse others when the run starts.',
    fix: 'Convert it: python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=...',
    sources: [{ title: 'LeRobot 0.6.1', at: 'lerobot/datasets/utils.py', locator: 'check_version_compatibility' }],
  },
  {
    ...common,
    id: 'VLA027',
    name: 'lock-unreadable',
    summary: 'vla.lock.json is valid JSON of the published schema.',
    why: 'Nothing in it can be used, so the plan would know neither widths nor statistics. It may hold a merge conflict, or a newer version wrote it.',
    fix: 'Run `vla lock` to write it anew, where the data is at hand.',
    sources: [{ title: 'the published schema', at: 'schemas/lock.schema.json' }],
  },
  {
    ...common,
    id: 'VLA028',
    name: 'weights-of-another-model',
    summary: 'The weights have the names and shapes of the declared model.',
    why: 'Loaders that print what does not match and go on start from random weights: the run looks healthy and learns nothing.',
    fix: 'Give weights of this very architecture, or declare the architecture of the weights.',
    sources: [
      {
        title: 'LeRobot issue 2307',
        at: 'https://github.com/huggingface/lerobot/issues/2307',
        locator: 'keys that were not loaded were only printed',
      },
    ],
  },
]
