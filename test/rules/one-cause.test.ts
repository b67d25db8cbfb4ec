/** One cause is one finding: a single wrong name or value in a whole pipeline sets off nothing but its own. */
import { describe, expect, it } from 'vitest'
import { judge, lockOf, pipelineText } from './chain.ts'

const common = `training: { updates: 1_000, globalBatch: 64, microBatch: 8, optimizer: adamw(), schedule: cosine({ warmup: '3%' }), clip: 1 },
checkpoint: { every: 100, keep: 3 },
track: [tensorboard()],
export: [hf({ dtype: 'fp32' })],
launch: [torchrun()],`

const pipelines = {
  openvla: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
modules: {
  vision: { lr: 2e-6, weightDecay: 0, dtype: 'bf16', recompute: 'full', freeze: until('75%', { thenTrain: lastLayers(6) }) },
  projector: { lr: 1e-4, dtype: 'bf16' },
  language: { lr: 2e-5, dtype: 'bf16', recompute: 'full' },
},
parallel: fsdp2(),
${common}`,
  composed: `cameras: { front: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { perNode: 8 }),
modules: {
  vision: { lr: 1e-4, weightDecay: 0, dtype: 'bf16' },
  projector: { lr: 1e-3, dtype: 'fp32' },
  language: { lr: 1e-3, dtype: 'bf16', recompute: 'full', freeze: until('75%', { thenTrain: lastLayers(2) }) },
  action: { lr: 1e-3 },
},
parallel: fsdp2(),
${common}`,
} as const

/** What is written instead of what, and the one finding of it. */
const mistakes: readonly (readonly [what: string, from: RegExp, to: string, id: string])[] = [
  ['a GPU that does not exist', /'[AH]100-SXM-80GB'/, `'H100-SXM-81GB' as never`, 'VLA005'],
  ['a camera that the model does not have', /(primary|front): 'obs/, `frnt: 'obs`, 'VLA006'],
  ['a feature that the dataset does not have', /'observation\.image'/, `'observation.imaeg'`, 'VLA502'],
  ['a module that the model does not have', /projector: \{/, `projecter: {`, 'VLA001'],
  ['a module that the model does not have, with phases', /(vision|language): \{(?=.*freeze)/, `trunck: {`, 'VLA001'],
  ['a misspelled option', /weightDecay/, `weigthDecay`, 'VLA002'],
  ['a misspelled option that every run needs', /globalBatch/, `globlBatch`, 'VLA002'],
  ['a dtype that does not exist', /'bf16'/, `'bf17' as never`, 'VLA003'],
  ['a recompute that does not exist', /recompute: 'full'/, `recompute: 'fully' as never`, 'VLA003'],
  ['a freeze that does not exist', /until\('75%'.*\}\)/, `'sometimes' as never`, 'VLA003'],
  ['a share beyond the run', /'75%'/, `'175%' as never`, 'VLA003'],
  ['a negative learning rate', /lr: 1e-[34]/, `lr: -1`, 'VLA003'],
  ['a number of updates that is a text', /1_000/, `'many' as never`, 'VLA003'],
  ['a batch that is not whole', /64/, `64.5`, 'VLA003'],
  ['an optimizer that does not exist', /adamw\(\)/, `{ kind: 'sgd' } as never`, 'VLA003'],
  ['no batch at all', /globalBatch: 64, /, ``, 'VLA004'],
]

describe.each(Object.entries(pipelines))('%s', (_, code) => {
  const found = (text: string): string[] =>
    judge(pipelineText(text), lockOf(undefined)).findings.map(({ id, message }) => `${id} ${message}`)

  it('is clean', () => {
    expect(found(code)).toEqual([])
  })
  it.each(mistakes)('%s', (__, from, to, id) => {
    const wrong = code.replace(from, to)
    expect(wrong).not.toBe(code)
    expect(
      found(wrong).map((text) => text.slice(0, 6)),
      found(wrong).join('\n'),
    ).toEqual([id])
  })
})
