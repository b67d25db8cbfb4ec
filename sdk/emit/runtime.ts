/** Which modules of the Python runtime a project needs: those that its scripts import, and what these import in turn. */
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Templates } from './emitted.ts'

const runtimePackage = 'vla_runtime'

/** Packages of the runtime that copy their own files into what they write; where one is needed, all of it is. */
const whole = ['lerobot_plugin', 'modeling']

/** Reads `templates/runtime`. Tests, caches and whatever is hidden stay out. */
export async function readTemplates(folder: string): Promise<Templates> {
  const runtime = new Map<string, string>()
  const root = path.join(folder, runtimePackage)
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const file = path.relative(root, path.join(entry.parentPath, entry.name)).split(path.sep).join('/')
    if (/(?:^|\/)(?:__pycache__|tests|\..*)(?:\/|$)|\.pyc$/.test(file)) continue
    runtime.set(file, await readFile(path.join(root, file), 'utf8'))
  }
  const [requirements, lock] = await Promise.all(
    ['requirements.in', 'requirements.lock'].map((file) => readFile(path.join(folder, file), 'utf8')),
  )
  return {
    runtime: new Map([...runtime].sort(([a], [b]) => (a < b ? -1 : 1))),
    requirements: requirements ?? '',
    lock: lock ?? '',
  }
}

/**
 * The runtime files that some scripts need, by path below `vla_runtime/`. Throws where a script imports a module that is not there.
 *
 * A folder that is needed brings the files in it that are not Python (data that its modules read).
 */
export function neededRuntime(runtime: ReadonlyMap<string, string>, scripts: readonly string[]): Map<string, string> {
  const needed = new Set<string>()
  const add = (file: string): void => {
    const source = runtime.get(file)
    if (source === undefined || needed.has(file)) return
    needed.add(file)
    follow(source, file.split('/').slice(0, -1))
    const folder = whole.find((name) => file.startsWith(`${name}/`))
    if (folder !== undefined) for (const other of runtime.keys()) if (other.startsWith(`${folder}/`)) add(other)
  }
  const addModule = (module: readonly string[]): boolean => {
    const file = locate(runtime, module)
    if (file === undefined) return module.length === 0
    for (let depth = 0; depth < module.length; depth++) add([...module.slice(0, depth), '__init__.py'].join('/'))
    add(file)
    return true
  }
  const follow = (source: string, from?: readonly string[]): void => {
    for (const { module, names } of importsOf(source, from)) {
      const there = addModule(module)
      const submodules = names.map((name) => addModule([...module, name])) // `from . import points` names a module
      if (from === undefined && !there && !submodules.some(Boolean)) {
        throw new Error(`a script imports ${[runtimePackage, ...module].join('.')}, which is not there`)
      }
    }
  }
  for (const script of scripts) follow(script)
  const folders = new Set([...needed].map((file) => path.posix.dirname(file)))
  return new Map(
    [...runtime].filter(
      ([file]) => needed.has(file) || (!file.endsWith('.py') && folders.has(path.posix.dirname(file))),
    ),
  )
}

function locate(runtime: ReadonlyMap<string, string>, module: readonly string[]): string | undefined {
  const base = module.join('/')
  return [`${base}.py`, `${base}/__init__.py`].find((file) => runtime.has(file))
}

/** The imports of runtime modules in Python source, in functions too. `from` is the package of the source, for relative ones. */
function importsOf(source: string, from: readonly string[] | undefined): { module: string[]; names: string[] }[] {
  const found: { module: string[]; names: string[] }[] = []
  for (const match of source.matchAll(/^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^#\n]*))/gm)) {
    const [, dots = '', dotted = '', inParentheses, onLine] = match
    const steps = dotted === '' ? [] : dotted.split('.')
    const names = (inParentheses ?? onLine ?? '')
      .replace(/#.*$/gm, '')
      .split(',')
      .map((name) => name.trim().split(/\s+/)[0] ?? '')
      .filter((name) => name !== '')
    if (dots === '') {
      if (steps[0] === runtimePackage) found.push({ module: steps.slice(1), names })
    } else if (from !== undefined) {
      found.push({ module: [...from.slice(0, from.length - (dots.length - 1)), ...steps], names })
    }
  }
  for (const match of source.matchAll(/^[ \t]*import[ \t]+vla_runtime((?:\.\w+)*)/gm)) {
    found.push({ module: (match[1] ?? '').split('.').filter((step) => step !== ''), names: [] })
  }
  return found
}
