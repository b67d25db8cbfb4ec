import { describe, expect, it } from 'vitest'
import { meanFactor } from '../../sdk/rules/schedule.ts'
import { assignments, commands, slurmSeconds } from '../../sdk/rules/setup.ts'

describe('lines of the setup', () => {
  it.each([
    ['module load cuda/12.8', ['module load cuda/12.8']],
    ['cd /data && ./stage.sh; exit 0', ['cd /data', './stage.sh', 'exit 0']],
    ['cat list | sort || true', ['cat list', 'sort', 'true']],
    ["echo 'cd /data; exit'", ['echo text']],
    ['(cd /data && ./stage.sh)', []],
    ['# cd /data', []],
  ])('%s', (text, expected) => {
    expect(commands(text)).toEqual(expected)
  })
  it.each([
    ['export A=1 B="two words"', { A: '1', B: 'two words' }],
    ["export KEY='x y'; OTHER=$(cat ~/.key)", { KEY: 'x y', OTHER: '$(cat' }],
    ['declare -x A=1', { A: '1' }],
    ['python a.py --flag=1 lower=2', {}],
    ['# export A=1', {}],
  ])('%s sets variables', (text, expected) => {
    expect(Object.fromEntries(assignments(text).map(({ name, value }) => [name, value]))).toEqual(expected)
  })
})

it.each([
  ['30', 1_800],
  ['30:10', 1_810],
  ['24:00:00', 86_400],
  ['2-0', 172_800],
  ['1-12:30', 131_400],
  ['1-00:00:05', 86_405],
])('Slurm reads %s', (time, seconds) => {
  expect(slurmSeconds(time)).toBe(seconds)
})

it('the mean of a schedule is that of its curve', () => {
  const updates = 1_000
  const sum = (factor: (update: number) => number): number =>
    Array.from({ length: updates }, (_, update) => factor(update)).reduce((a, b) => a + b, 0) / updates
  const cosine = (update: number): number =>
    update < 100 ? (update + 1) / 100 : 0.1 + 0.9 * 0.5 * (1 + Math.cos((Math.PI * (update - 100)) / 900))
  expect(meanFactor({ updates, schedule: { kind: 'cosine', warmup: 100, floor: 0.1 } })).toBeCloseTo(sum(cosine), 2)
  expect(meanFactor({ updates, schedule: { kind: 'linear', warmup: 0, floor: 0.5 } })).toBe(0.75)
  expect(meanFactor({ updates, schedule: { kind: 'constant', warmup: 500 } })).toBe(0.75)
})
