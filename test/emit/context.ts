import path from 'node:path'
import type { EmitContext, EmittedFiles } from '../../sdk/emit/emitted.ts'
import { readTemplates } from '../../sdk/emit/runtime.ts'
import { repository } from './tools.ts'

/** As the command line makes it for a project in `build/<name>` beside pipeline.ts. The version stands still in tests. */
export const context: EmitContext = {
  version: '0.1.0',
  source: 'pipeline.ts',
  sourceFolder: '../..',
  templates: await readTemplates(path.join(repository, 'templates/runtime')),
}

/** The Python that was emitted, copied modules left out. */
export function emittedPython(files: EmittedFiles): { name: string; source: string }[] {
  return [...files]
    .filter(([file]) => /^[^/]+\.py$/.test(file))
    .map(([file, { content }]) => ({ name: file, source: content }))
}

/** The text of a file that must be there. */
export function text(files: EmittedFiles, file: string): string {
  const found = files.get(file)
  if (found === undefined) throw new Error(`${file} is not emitted; there are ${[...files.keys()].join(', ')}`)
  return found.content
}
