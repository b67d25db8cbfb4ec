import { appendFile, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { LineFollower, parseMetrics, ProgressBar } from '../../sdk/python/metrics.ts'
import { fakeHost } from './host.ts'

describe('LineFollower', () => {
  it('gives whole lines as they come, and goes on after a cut', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'vla-metrics-'))
    try {
      const file = join(folder, 'metrics.jsonl')
      const follower = new LineFollower(file, 0)
      expect(await follower.read()).toEqual([])
      await writeFile(file, 'one\ntw')
      expect(await follower.read()).toEqual(['one'])
      await appendFile(file, 'o\nthr')
      expect(await follower.read()).toEqual(['two'])
      await truncate(file, 4) // a resuming run cuts what came after its checkpoint
      expect(await follower.read()).toEqual([])
      await appendFile(file, 'new\n')
      expect(await follower.read()).toEqual(['new'])
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})

describe('parseMetrics', () => {
  it('takes updates, and passes over everything else', () => {
    expect(parseMetrics('{"update": 3, "loss": 0.5, "lr": {"vision": 1e-3}, "norms": {}}')).toEqual({
      ...{ update: 3, loss: 0.5, lr: { vision: 1e-3 } },
    })
    expect(parseMetrics('{"update": 3, "loss": NaN, "samples_per_second": Infinity}')).toMatchObject({ loss: null })
    for (const line of ['{"held_out": 3}', '{"update": 3, "lo', 'text', '']) expect(parseMetrics(line)).toBeUndefined()
  })
})

describe('ProgressBar', () => {
  it('averages the speed, so that one slow update does not multiply the time left', () => {
    const { terminal, text } = fakeHost()
    const bar = new ProgressBar(terminal, 100, 10, false)
    for (let update = 0; update < 50; update++) {
      bar.show({ update, loss: 1, lr: {}, samples_per_second: update === 49 ? 10 : 100 }, update * 10_000)
    }
    expect(text().split('\n').at(-2)).toMatch(/^50\/100 {2}50 % {2}loss 1 {2}53 samples\/s {2}ETA 0:10/)
  })

  it('fits the width of the terminal and says what is not finite', () => {
    const { terminal, text } = fakeHost({ isTTY: true })
    const narrow = { ...terminal, columns: 60, write: (piece: string) => terminal.write(piece) }
    const rates = Object.fromEntries(['vision', 'projector', 'language', 'action', 'more'].map((name) => [name, 1e-3]))
    new ProgressBar(narrow, 1000, 10, false).show({ update: 0, loss: null, lr: rates, samples_per_second: 1234 }, 0)
    for (const line of text().trimEnd().split('\n')) expect(line.length).toBeLessThanOrEqual(60)
    expect(text()).toContain('loss not finite')
  })
})
