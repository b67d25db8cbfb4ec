/** Runs a user's pipeline.ts and takes its default export. */
import { existsSync, statSync } from 'node:fs'
import { createRequire, register as registerHooks } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { CannotDo } from '../python/errors.ts'
import { packageFolder, packageName } from './package.ts'

/** The file that commands read when none is named. */
const DEFAULT_FILE = 'pipeline.ts'

/** What came of loading a declaration: its default export (undefined where there is none), or what was thrown. */
export type Loaded = (
  { readonly value: unknown; readonly thrown?: undefined } | { readonly thrown: { readonly error: unknown } }
) & {
  /** Absolute paths of the user's files that were loaded, pipeline.ts first, and of those that were looked for and are not there. */
  readonly files: readonly string[]
}

/**
 * Absolute path of the declaration: a file, or the folder with a pipeline.ts.
 *
 * @throws CannotDo where it is not there.
 */
export function declarationFile(argument: string | undefined, cwd: string): string {
  const named = resolve(cwd, argument ?? DEFAULT_FILE)
  const file = existsSync(named) && statSync(named).isDirectory() ? join(named, DEFAULT_FILE) : named
  if (!existsSync(file)) {
    throw new CannotDo(
      `There is no ${argument === undefined ? DEFAULT_FILE : argument} in ${argument === undefined ? cwd : dirname(file)}.`,
      'Name the file (vla check path/to/pipeline.ts), or start a project with: vla init',
    )
  }
  return file
}

/**
 * Loads the file with everything it imports, as the files are now: nothing of an earlier load is used again but packages.
 *
 * `import ... from 'vla-pipeline'` gives this very SDK, whichever copy the project has installed: what checks a declaration is what
 * made it, and nothing is loaded twice.
 */
export async function loadDeclaration(file: string): Promise<Loaded> {
  const loader = await loaderFor(nearestTsconfig(dirname(file)))
  const load = String(++loads)
  // What the file prints while it is loaded is not the data that was asked for.
  const { log, info } = console
  console.log = console.info = console.error.bind(console)
  try {
    forgetRequired()
    const module = (await loader.load(`${pathToFileURL(file).href}?${LOAD}=${load}`)) as { default?: unknown }
    return { value: unwrapDefault(module.default), files: await loader.filesOf(file, load) }
  } catch (error) {
    return { thrown: { error }, files: await loader.filesOf(file, load) }
  } finally {
    console.log = log
    console.info = info
  }
}

/** Marks the addresses of one load, so that Node takes no module of another. */
const LOAD = 'vla-load'
let loads = 0

interface Loader {
  readonly load: (url: string) => Promise<unknown>
  readonly filesOf: (file: string, load: string) => Promise<string[]>
}

const loaders = new Map<string, Promise<Loader>>()

/** One per tsconfig.json, since hooks of Node cannot be taken back: each would stay in its thread with a compiler of its own. */
function loaderFor(tsconfig: string | undefined): Promise<Loader> {
  const key = tsconfig ?? ''
  const known = loaders.get(key)
  if (known !== undefined) return known
  const made = makeLoader(tsconfig, `vla-${String(loaders.size)}`)
  loaders.set(key, made)
  return made
}

async function makeLoader(tsconfig: string | undefined, namespace: string): Promise<Loader> {
  const { register } = await import('tsx/esm/api')
  const scope = register({ namespace, tsconfig: tsconfig ?? false })
  const port = addHooks()
  return {
    load: (url) => scope.import(url, import.meta.url),
    async filesOf(file, load) {
      port.ref()
      const answer = new Promise<string[]>((resolve) => port.once('message', resolve))
      port.postMessage(load)
      const urls = await answer
      port.unref()
      return [...new Set([file, ...urls.map((url) => fileURLToPath(url.replace(/[?#].*$/, '')))])]
    },
  }
}

/**
 * Hooks that answer before tsx does: our package is this SDK; the user's TypeScript is modules, whatever the `type` of a package.json
 * around it (or the lack of one) says; and each of the user's files carries the number of its load. In a folder of sources (our own
 * tests) tsx has to see our file to be able to read it.
 *
 * @returns The port that answers the number of a load with the addresses of its files.
 */
function addHooks(): MessagePort {
  const isSource = import.meta.url.endsWith('.ts')
  const own = new URL(isSource ? '../index.ts' : '../index.js', import.meta.url).href
  const answer = isSource
    ? `return next(${JSON.stringify(own)}, context)`
    : `return { url: ${JSON.stringify(own)}, format: 'module', shortCircuit: true }`
  // tsx (pinned, and tested with this) sends TypeScript of a package without "type": "module" to require, under an address of its own.
  const hooks = `
    const files = new Map()
    export function initialize(port) {
      port.on('message', (load) => {
        port.postMessage([...(files.get(load) ?? [])])
        files.delete(load)
      })
    }
    const loadOf = (url) => /^file:.*[?&]${LOAD}=(\\d+)/.exec(url ?? '')?.[1]
    const note = (load, url) => files.set(load, (files.get(load) ?? new Set()).add(url))
    export async function resolve(specifier, context, next) {
      if (specifier === ${JSON.stringify(packageName)}) { ${answer} }
      const from = loadOf(context.parentURL)
      const found = await next(specifier, context).catch((error) => {
        if (from !== undefined && /^(\\.|file:)/.test(specifier)) note(from, new URL(specifier, context.parentURL).href)
        throw error
      })
      const virtual = /^(file:.*\\.[cm]?ts)%3F[^?]*\\?(.*)&tsx-commonjs-virtual-query=1$/.exec(found.url)
      const plain = virtual === null ? found : { ...found, url: virtual[1] + '?' + virtual[2], format: 'module' }
      const load = loadOf(plain.url) ?? from
      if (load === undefined || !plain.url.startsWith('file:') || plain.url.includes('/node_modules/')) return plain
      note(load, plain.url)
      if (loadOf(plain.url) !== undefined) return plain
      return { ...plain, url: plain.url + (plain.url.includes('?') ? '&' : '?') + '${LOAD}=' + load }
    }`
  const { port1, port2 } = new MessageChannel()
  registerHooks(`data:text/javascript,${encodeURIComponent(hooks)}`, { data: port2, transferList: [port2] })
  port1.unref()
  return port1
}

/** What was loaded by `require` is kept by file name; packages and our own files may stay. */
function forgetRequired(): void {
  const { cache } = createRequire(import.meta.url)
  for (const name of Object.keys(cache))
    if (!name.includes('/node_modules/') && !name.startsWith(packageFolder)) Reflect.deleteProperty(cache, name)
}

/** In a project without "type": "module" the default export arrives inside another default. */
function unwrapDefault(value: unknown): unknown {
  if (typeof value === 'object' && value !== null && !(Symbol.for('vla.pipeline') in value) && 'default' in value)
    return value.default
  return value
}

function nearestTsconfig(folder: string): string | undefined {
  for (let here = folder; ; here = dirname(here)) {
    const file = join(here, 'tsconfig.json')
    if (existsSync(file)) return file
    if (dirname(here) === here) return undefined
  }
}
