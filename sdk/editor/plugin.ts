/**
 * The plugin of TypeScript's language service: what `vla check` finds stands in the editor, with its fixes as code actions.
 *
 * In tsconfig.json: `"plugins": [{ "name": "vla-pipeline/ts-plugin" }]`. Findings are those of the saved files, and are shown only where
 * the text in the editor is the text that was checked.
 */
import path from 'node:path'
import type ts from 'typescript'
import type { Diagnostic } from '../locate/diagnostic.ts'
import { Checks } from './checks.ts'
import { codeOf, codes, SOURCE, toCodeAction, toTsDiagnostic } from './translate.ts'

// The bundle lies in `ts-plugin`, beside `dist`.
const program = path.join(__dirname, '../dist/cli/bin.js')

/** Where the system does not tell of changes. */
const POLLING_MS = 500

/** What tsserver calls with the TypeScript that it runs. */
export default function plugin({ typescript }: { typescript: typeof ts }): ts.server.PluginModule {
  return { create: (info) => decorate(typescript, info) }
}

function decorate(typescript: typeof ts, info: ts.server.PluginCreateInfo): ts.LanguageService {
  const { languageService: service, project, serverHost } = info
  const log = (message: string): void => {
    project.projectService.logger.info(`${SOURCE}: ${message}`)
  }
  const checks = new Checks(program, {
    read: (file) => serverHost.readFile(file),
    watch: (file, changed) => serverHost.watchFile(file, changed, POLLING_MS),
    refresh: () => {
      if (!project.isClosed()) project.refreshDiagnostics()
    },
    log,
  })

  /** Whatever goes wrong here, the editor goes on as if we were not there. */
  function guarded<T>(otherwise: T, work: () => T): T {
    try {
      return work()
    } catch (error) {
      log(error instanceof Error ? (error.stack ?? error.message) : String(error))
      return otherwise
    }
  }

  /** A file of the program whose text is the one that was checked. */
  const open = (name: string): ts.SourceFile | undefined => {
    const file = service.getProgram()?.getSourceFile(name)
    return checks.isChecked(name, file?.text) ? file : undefined
  }

  const findings = (file: ts.SourceFile): Diagnostic[] => {
    if (isPipeline(file)) checks.ask(file.fileName, reachable(typescript, service.getProgram(), file, serverHost))
    return checks.about(file.fileName, file.text)
  }

  const diagnostics = (name: string, wanted: (finding: Diagnostic) => boolean): ts.Diagnostic[] => {
    const file = service.getProgram()?.getSourceFile(name)
    if (file === undefined) return []
    return findings(file)
      .filter(wanted)
      .map((finding) => toTsDiagnostic(typescript, finding, file, open))
  }

  return {
    ...service,
    getSemanticDiagnostics(name) {
      const own = service.getSemanticDiagnostics(name)
      return guarded(own, () => {
        const found = diagnostics(name, ({ severity }) => severity !== 'info')
        return [...own.filter((error) => !found.some((finding) => isSame(typescript, error, finding))), ...found]
      })
    },
    getSuggestionDiagnostics(name) {
      const own = service.getSuggestionDiagnostics(name)
      const found = guarded([], () => diagnostics(name, ({ severity }) => severity === 'info'))
      return [...own, ...(found as ts.DiagnosticWithLocation[])]
    },
    getCodeFixesAtPosition(name, start, end, errorCodes, ...rest) {
      const own = service.getCodeFixesAtPosition(name, start, end, errorCodes, ...rest)
      const found = guarded([], () => {
        const file = open(name)
        if (file === undefined) return []
        return findings(file)
          .filter((finding) => errorCodes.includes(codeOf(finding.id)))
          .filter((finding) =>
            overlaps({ start, length: end - start }, toTsDiagnostic(typescript, finding, file, open)),
          )
          .flatMap(({ fixes }) => fixes.flatMap((fix) => toCodeAction(fix, open) ?? []))
      })
      return [...found, ...own]
    },
    getSupportedCodeFixes: (name) => [...service.getSupportedCodeFixes(name), ...codes],
    dispose() {
      checks.close()
      service.dispose()
    },
  }
}

/** Whether a file declares a pipeline, as far as its text shows. */
function isPipeline(file: ts.SourceFile): boolean {
  return !file.isDeclarationFile && file.text.includes('defineVLAPipeline') && /^export\s+default\b/m.test(file.text)
}

/** The user's files that a file imports, itself first. */
function reachable(
  typescript: typeof ts,
  current: ts.Program | undefined,
  file: ts.SourceFile,
  host: ts.ModuleResolutionHost,
): string[] {
  const seen = new Set([file.fileName])
  for (const name of seen) {
    const source = current?.getSourceFile(name)
    if (current === undefined || source === undefined) continue
    for (const { fileName } of typescript.preProcessFile(source.text).importedFiles) {
      const found = typescript.resolveModuleName(fileName, name, current.getCompilerOptions(), host).resolvedModule
      if (found === undefined || found.isExternalLibraryImport === true) continue
      if (!/\.d\.[cm]?ts$/.test(found.resolvedFileName)) seen.add(found.resolvedFileName)
    }
  }
  return [...seen]
}

/** Whether TypeScript's error is the finding that types carry: the finding says it in words, and with a fix. */
function isSame(typescript: typeof ts, error: ts.Diagnostic, finding: ts.Diagnostic): boolean {
  const text = (of: ts.Diagnostic): string => typescript.flattenDiagnosticMessageText(of.messageText, '\n')
  const id = /^VLA\d{3}:/.exec(text(finding))?.[0]
  return id !== undefined && text(error).includes(id) && overlaps(assigned(typescript, error), finding)
}

/** An error about a value stands at its key: the span of both. */
function assigned(typescript: typeof ts, error: ts.Diagnostic): Span {
  const { file, start } = error
  if (file === undefined || start === undefined) return error
  let node: ts.Node = file
  for (let inner: ts.Node | undefined = node; inner !== undefined;) {
    node = inner
    inner = typescript.forEachChild(node, (child) => (child.pos <= start && start < child.end ? child : undefined))
  }
  const { parent } = node as { parent?: ts.Node }
  if (parent === undefined || !typescript.isPropertyAssignment(parent) || parent.name !== node) return error
  return { start, length: parent.end - start }
}

interface Span {
  readonly start?: number | undefined
  readonly length?: number | undefined
}

/** Whether two spans touch. A cursor is a span of no length. */
function overlaps(a: Span, b: Span): boolean {
  const [from, to] = [a.start ?? 0, b.start ?? 0]
  return from <= to + (b.length ?? 0) && to <= from + (a.length ?? 0)
}
