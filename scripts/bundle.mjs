/**
 * Bundles the command line and the SDK into `dist`, and the editor's plugin into `ts-plugin`: `npm run build`; tsc then writes the
 * declarations beside the SDK.
 *
 * Node spends about half a millisecond on each module it loads; bundled, `vla check` loads some twenty instead of three hundred. The two
 * entries share chunks, so that a declaration and the command that reads it hold the same objects. Chunks lie one folder deep, as the
 * rooms of `sdk` do: `import.meta.url` reaches `templates` and `package.json` alike from sources and from here.
 */
import { readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const { dependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const bundled = ['zod'] // 95 modules, half of them translations that we do not use

rmSync(path.join(root, 'dist'), { recursive: true, force: true })
await build({
  absWorkingDir: root,
  entryPoints: ['sdk/cli/bin.ts', 'sdk/index.ts'],
  outdir: 'dist',
  outbase: 'sdk',
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: Object.keys(dependencies).filter((name) => !bundled.includes(name)),
  logLevel: 'warning',
})

// tsserver finds plugins as Node 10 found modules, without `exports`, and requires them.
await build({
  absWorkingDir: root,
  entryPoints: ['sdk/editor/plugin.ts'],
  outfile: 'ts-plugin/index.cjs',
  bundle: true,
  format: 'cjs',
  platform: 'node',
  target: 'node20.19',
  footer: { js: 'module.exports = module.exports.default' },
  logLevel: 'warning',
})
