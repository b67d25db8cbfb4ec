/** Type-checks texts as if they were files of this project. */
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Name of a text -> its errors, each with the piece of text it stands at. All in one program: building it is what takes the time. */
export function typeErrors(texts: ReadonlyMap<string, string>): Map<string, string[]> {
  const names = new Map([...texts.keys()].map((name, index) => [`${root}text-${String(index)}.ts`, name]))
  const files = new Map([...names].map(([path, name]) => [path, texts.get(name) ?? '']))
  const config = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path))
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root)
  const host = ts.createCompilerHost(options)
  const read = host.readFile.bind(host)
  const exists = host.fileExists.bind(host)
  const source = host.getSourceFile.bind(host)
  host.readFile = (path) => files.get(path) ?? read(path)
  host.fileExists = (path) => files.has(path) || exists(path)
  host.getSourceFile = (path, target) => {
    const text = files.get(path)
    return text === undefined ? source(path, target) : ts.createSourceFile(path, text, target)
  }
  const program = ts.createProgram([...files.keys()], options, host)
  return new Map(
    [...names].map(([path, name]) => {
      const file = program.getSourceFile(path)
      if (file === undefined) throw new Error(`no ${path}`)
      const all = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]
      const errors = all.map(
        ({ messageText, start }) =>
          `${ts.flattenDiagnosticMessageText(messageText, '\n')} at: ${file.text.slice(start, (start ?? 0) + 60)}`,
      )
      return [name, errors]
    }),
  )
}
