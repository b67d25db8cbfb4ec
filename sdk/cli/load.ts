/** Runs a user's pipeline.ts and takes its default export. */
import { existsSync, statSync } from 'node:fs'
import { register as registerHooks } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { CannotDo } from '../python/errors.ts'
import { packageName } from './package.ts'

/** The file that commands read when none is named. */
const DEFAULT_FILE = 'pipeline.ts'

export interface Loaded {
  /** The default export; undefined where there is none. */
  readonly value: unknown
  /** Absolute paths of the user's files that were loaded, pipeline.ts first. */
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
 * Loads the file with everything it imports. Whatever it throws is thrown on.
 *
 * `import ... from 'vla-pipeline'` gives this very SDK, whichever copy the project has installed: what checks a declaration is what
 * made it, and nothing is loaded twice.
 */
export async function loadDeclaration(file: string): Promise<Loaded> {
  const { register } = await import('tsx/esm/api')
  const files = new Set<string>([file])
  const config = nearestTsconfig(dirname(file))
  const scope = register({
    namespace: `vla-${String(++loads)}`,
    tsconfig: config ?? false,
    onImport: (url) => {
      if (url.startsWith('file:') && !url.includes('/node_modules/')) files.add(fileURLToPath(url.replace(/\?.*$/, '')))
    },
  })
  addHooks()
  // What the file prints while it is loaded is not the data that was asked for.
  const { log, info } = console
  console.log = console.info = console.error.bind(console)
  try {
    const module = (await scope.import(pathToFileURL(file).href, import.meta.url)) as { default?: unknown }
    return { value: unwrapDefault(module.default), files: [...files] }
  } finally {
    console.log = log
    console.info = info
    await scope.unregister()
  }
}

let loads = 0

/**
 * Resolution hooks that answer before tsx does: our package is this SDK, and the user's TypeScript is modules, whatever the `type` of a
 * package.json around it (or the lack of one) says. In a folder of sources (our own tests) tsx has to see our file to be able to read it.
 */
function addHooks(): void {
  const isSource = import.meta.url.endsWith('.ts')
  const own = new URL(isSource ? '../index.ts' : '../index.js', import.meta.url).href
  const answer = isSource
    ? `return next(${JSON.stringify(own)}, context)`
    : `return { url: ${JSON.stringify(own)}, format: 'module', shortCircuit: true }`
  // tsx (pinned, and tested with this) sends TypeScript of a package without "type": "module" to require, under an address of its own.
  const hooks = `
    export async function resolve(specifier, context, next) {
      if (specifier === ${JSON.stringify(packageName)}) { ${answer} }
      const found = await next(specifier, context)
      const virtual = /^(file:.*\\.[cm]?ts)%3F[^?]*\\?(.*)&tsx-commonjs-virtual-query=1$/.exec(found.url)
      return virtual === null ? found : { ...found, url: virtual[1] + '?' + virtual[2], format: 'module' }
    }`
  registerHooks(`data:text/javascript,${encodeURIComponent(hooks)}`)
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
