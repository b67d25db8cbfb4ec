/** The README shows a wrong pipeline and what `vla check` says of it: both are kept true here. */
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { vla } from './io.ts'

it('shows the real output of vla check', async () => {
  const [readme, source] = await Promise.all([
    readFile('README.md', 'utf8'),
    readFile('test/readme/pipeline.ts', 'utf8'),
  ])
  const folder = await mkdtemp(join(tmpdir(), 'vla-readme-'))
  try {
    await copyFile('test/readme/pipeline.ts', join(folder, 'pipeline.ts'))
    const { code, stderr } = await vla(folder, ['check'])
    expect(code).toBe(4)
    expect(readme).toContain('```ts\n' + source.trimEnd() + '\n```')
    expect(readme).toContain('```\n$ vla check\n' + stderr.trimEnd() + '\n```')
  } finally {
    await rm(folder, { recursive: true })
  }
})
