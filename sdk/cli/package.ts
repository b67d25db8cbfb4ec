/** Our own package: its version and the folders that travel with it. The same from `sdk/cli` and from `dist/cli`. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Absolute path of the package's folder. */
export const packageFolder = fileURLToPath(new URL('../..', import.meta.url))

const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  name: string
  version: string
}

export const packageName = manifest.name
export const version = manifest.version
