/** Pages of the findings that reading a declaration gives (sdk/declare/findings.ts, sdk/locate/load-failure.ts). They have no check here. */
import type { RuleEntry } from '../rule.ts'

const common = {
  area: 'declaration',
  severity: 'error',
  since: '0.1.0',
  suppress: { allowed: false, because: 'What cannot be read cannot be planned.' },
} as const

export const declarationEntries: readonly RuleEntry[] = [
  {
    ...common,
    id: 'VLA001',
    name: 'unknown-module',
    summary: 'Keys of `modules` are modules of the model.',
    why: 'The options would belong to no parameters, and the module that was meant would train with defaults.',
    fix: 'Use a module of the model: vision, projector, language, and action where the decoder has a head of its own. `--fix` renames what was misspelled.',
    sources: [
      {
        title: 'LeRobot issue 4018',
        at: 'https://github.com/huggingface/lerobot/issues/4018',
        locator: 'freeze patterns that matched nothing trained what was meant to be frozen',
      },
    ],
    valid: [{ caption: 'A module that the model has.', code: 'modules: { vision: { lr: 1e-4 } },' }],
    invalid: [{ caption: 'A misspelled module.', code: 'modules: { visoin: { lr: 1e-4 } },' }],
  },
  {
    ...common,
    id: 'VLA002',
    name: 'unknown-option',
    summary: 'Every option is one that this version knows.',
    why: 'An option that nobody reads has no effect: the run would use a default in its place.',
    fix: 'Correct the name, or remove the option. `--fix` renames what was misspelled.',
    sources: [
      {
        title: 'LLaMA-Factory issue 7412',
        at: 'https://github.com/hiyouga/LLaMA-Factory/issues/7412',
        locator: 'options of another version',
      },
    ],
    valid: [{ caption: 'An option that there is.', code: 'checkpoint: { every: 500 },' }],
    invalid: [{ caption: 'A misspelled option.', code: 'checkpoint: { every: 500, kep: 2 },' }],
  },
  {
    ...common,
    id: 'VLA003',
    name: 'wrong-value',
    summary: 'Every value is of the kind and in the range that its option takes.',
    why: 'The value has no meaning here, so the plan cannot say what to run.',
    fix: 'Write what the message expects. In an editor the type of the option says the same.',
    sources: [{ title: 'the vocabulary', at: 'sdk/declare/pipeline.ts', locator: 'declarationSchema' }],
    valid: [{ caption: 'A number.', code: 'modules: { vision: { lr: 1e-4 } },' }],
    invalid: [{ caption: 'A text where a number stands.', code: `modules: { vision: { lr: 'high' as never } },` }],
  },
  {
    ...common,
    id: 'VLA004',
    name: 'missing-option',
    summary: 'Options without a default are given.',
    why: 'Nothing stands in for it: every run needs a value here, and a guess could be silently wrong.',
    fix: 'Add the option that the message names.',
    sources: [{ title: 'the vocabulary', at: 'sdk/declare/pipeline.ts', locator: 'declarationSchema' }],
    valid: [
      {
        caption: 'All that a run needs.',
        code: 'training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3 },',
      },
    ],
    invalid: [{ caption: 'No batch.', code: 'training: { updates: 1_000, microBatch: 32, lr: 1e-3 } as never,' }],
  },
  {
    ...common,
    id: 'VLA005',
    name: 'unknown-gpu',
    summary: 'The GPU is one of the catalog.',
    why: 'Memory, dtypes and compute capability come from the catalog, by name.',
    fix: 'Use a name of the catalog; an editor completes them.',
    sources: [{ title: 'the catalog', at: 'sdk/catalog/gpus.ts', locator: 'gpuTable' }],
    valid: [{ caption: 'A GPU of the catalog.', code: `hardware: gpus('A100-SXM-80GB', { perNode: 2 }),` }],
    invalid: [
      { caption: 'A GPU that nobody makes.', code: `hardware: gpus('A100-SXM-81GB' as never, { perNode: 2 }),` },
    ],
  },
  {
    ...common,
    id: 'VLA006',
    name: 'unknown-camera',
    summary: 'Keys of `cameras` are camera slots of the model.',
    why: 'The model has no such slot: the image would never be read.',
    fix: 'Use a camera of the model. `--fix` renames what was misspelled.',
    sources: [
      {
        title: 'LeRobot issue 2262',
        at: 'https://github.com/huggingface/lerobot/issues/2262',
        locator: 'camera keys of dataset and policy that do not match',
      },
    ],
    valid: [{ caption: 'A camera of the model.', code: `cameras: { front: 'observation.image' },` }],
    invalid: [
      { caption: 'A camera that the model does not have.', code: `cameras: { frnt: 'observation.image' } as never,` },
    ],
  },
  {
    ...common,
    id: 'VLA007',
    name: 'unwritable-text',
    summary: 'Texts hold neither NUL nor half of a surrogate pair.',
    why: 'NUL and lone surrogates cannot stand in a file, a command line or a JSON document: the generated project would not be what was declared.',
    fix: 'Remove the character; it usually comes from a file read in the wrong encoding.',
    sources: [
      {
        title: 'RFC 8259',
        at: 'https://www.rfc-editor.org/rfc/rfc8259',
        locator: 'section 8.2: unpaired surrogates are unpredictable',
      },
    ],
    valid: [{ caption: 'A text that can be written.', code: `name: 'reach',` }],
    invalid: [{ caption: 'NUL at the end of a name.', code: `track: [wandb({ project: 'reach\\u0000' })],` }],
  },
  {
    ...common,
    id: 'VLA008',
    name: 'name-not-allowed',
    summary: 'Names of pipelines and cameras can stand in file names, Python and job names.',
    why: 'The name becomes part of file names, Python keys and job names.',
    fix: 'Small letters, digits and hyphens for the pipeline; letters, digits and underscores for a camera.',
    sources: [{ title: 'the vocabulary', at: 'sdk/declare/parse.ts', locator: 'crossChecks' }],
    valid: [{ caption: 'Small letters and hyphens.', code: `name: 'reach-two',` }],
    invalid: [{ caption: 'A path for a name.', code: `name: 'runs/reach',` }],
  },
  {
    ...common,
    id: 'VLA009',
    name: 'cannot-load',
    summary: 'pipeline.ts loads, and its default export is a pipeline.',
    why: 'The declaration is the value of its default export; without it there is nothing to check or build.',
    fix: 'Correct the syntax, the import or the exception at the place shown, and end the file with `export default defineVLAPipeline({ ... })`.',
    sources: [{ title: 'tsx', at: 'https://tsx.is/dev-api/ts-import', locator: 'tsImport: how the file is loaded' }],
  },
]
