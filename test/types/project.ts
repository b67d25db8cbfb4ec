import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DiagnosticMessageChain } from 'ts-morph'
import { Project } from 'ts-morph'

export const root = fileURLToPath(new URL('../..', import.meta.url))
export const fixtures = path.join(root, 'test/types/fixtures')

/** A project with the repository's compiler options, in which `vla-pipeline` is this SDK. */
export function makeProject(): Project {
  return new Project({ tsConfigFilePath: path.join(root, 'tsconfig.json'), skipAddingFilesFromTsConfig: true })
}

/** A compiler message with everything below it, one line each. */
export function flatten(message: string | DiagnosticMessageChain): string {
  if (typeof message === 'string') return message
  return [message.getMessageText(), ...(message.getNext() ?? []).map(flatten)].join('\n')
}

/** Compile errors of a file: line (from 1) and whole text. */
export function errorsOf(project: Project, file: string): { line: number; text: string }[] {
  return project
    .getSourceFileOrThrow(file)
    .getPreEmitDiagnostics()
    .map((diagnostic) => ({ line: diagnostic.getLineNumber() ?? 0, text: flatten(diagnostic.getMessageText()) }))
}
