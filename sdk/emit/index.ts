/** Plan -> files on disk. */
export { emit } from './emit.ts'
export type { EmitContext, EmittedFile, EmittedFiles, Templates } from './emitted.ts'
export { PlanIncomplete } from './project.ts'
export { readTemplates } from './runtime.ts'
export { UnwritableValue } from './text.ts'
export { manifestPath, writeProject, type Change, type WriteOptions, type WriteReport } from './write.ts'
