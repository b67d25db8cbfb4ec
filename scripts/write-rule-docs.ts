/** Writes docs/rules from the rules themselves: `npm run rules`. A test fails when a page is stale. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { rulePages } from './rule-pages.ts'

const folder = fileURLToPath(new URL('../docs/rules/', import.meta.url))
mkdirSync(folder, { recursive: true })
const pages = await rulePages()
for (const file of readdirSync(folder)) if (!pages.has(file)) rmSync(folder + file)
for (const [file, text] of pages) writeFileSync(folder + file, text)
