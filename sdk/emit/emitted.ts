/** What the emitters hand to each other and to the writer. */

/** `managed` files are ours for good; a `scaffold` is written once and belongs to the user from then on. */
type FileKind = 'managed' | 'scaffold'

export interface EmittedFile {
  readonly content: string
  readonly kind: FileKind
  /** Whether the file may be started as a program. */
  readonly executable?: boolean
}

/** Relative POSIX path -> file. */
export type EmittedFiles = ReadonlyMap<string, EmittedFile>

/** What is copied into every project. Read by `readTemplates`; plain data, so that emitting stays pure. */
export interface Templates {
  /** Path below `vla_runtime/` -> content. */
  readonly runtime: ReadonlyMap<string, string>
  /** Requirements by hand, one a line. */
  readonly requirements: string
  /** Every package with its exact version. */
  readonly lock: string
}

/** Where a build happens, as far as the files say so. Never an absolute path, never a time. */
export interface EmitContext {
  readonly version: string
  /** File name of the declaration: `pipeline.ts`. */
  readonly source: string
  /** POSIX path from the project's folder to the folder of the declaration (`../..`); relative paths of the declaration start there. */
  readonly sourceFolder: string
  readonly templates: Templates
}
