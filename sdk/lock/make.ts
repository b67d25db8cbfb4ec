/** Reading, writing, making and comparing `vla.lock.json`. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { isAbsolute, join, resolve as resolvePath } from 'node:path'
import * as z from 'zod'
import type { Finding } from '../finding/finding.ts'
import { canonicalFile, canonicalJson } from '../plan/canonical.ts'
import { readDataset, type DatasetProblem } from './dataset.ts'
import { declaredDatasets, declaredWeights, type DeclaredDataset, type DeclaredWeights } from './declared.ts'
import { lockFinding } from './findings.ts'
import { lockSchema, type DatasetEntry, type Lock, type WeightsEntry } from './lock.ts'
import { isLocalPath } from './source.ts'
import { readWeights, type WeightsProblem } from './weights.ts'

export const lockFileName = 'vla.lock.json'

/** The lock beside pipeline.ts; undefined where there is none, or where it cannot be used (then there is a finding). */
export function readLock(pipelineDir: string): { lock: Lock | undefined; findings: Finding[] } {
  const path = join(pipelineDir, lockFileName)
  if (!existsSync(path)) return { lock: undefined, findings: [] }
  const refuse = (what: string): { lock: undefined; findings: Finding[] } => ({
    lock: undefined,
    findings: [
      lockFinding(
        'VLA027',
        [],
        `${lockFileName} ${what}`,
        'Run `vla lock` to write it anew, where the data is at hand.',
      ),
    ],
  })
  let content: unknown
  try {
    content = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    return refuse(error instanceof SyntaxError ? 'is not valid JSON' : 'cannot be read')
  }
  const parsed = lockSchema.safeParse(content)
  if (parsed.success) return { lock: parsed.data, findings: [] }
  return refuse(`does not have the form of a lock: ${z.prettifyError(parsed.error).split('\n').slice(0, 2).join(' ')}`)
}

/**
 * Writes the lock beside pipeline.ts, whole or not at all, and only where it changes.
 *
 * @returns whether the file was touched
 */
export function writeLock(pipelineDir: string, lock: Lock): boolean {
  const path = join(pipelineDir, lockFileName)
  const text = lockText(lock)
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return false
  const staged = `${path}.${String(process.pid)}.tmp`
  writeFileSync(staged, text)
  renameSync(staged, path)
  return true
}

/** The lock as it stands in the file: canonical order, one line per tensor, a newline at the end. */
export function lockText(lock: Lock): string {
  return canonicalFile(lock)
}

/** Looks at every dataset and weights directory of the declaration that is on this machine. Nothing is downloaded. */
export function makeLock(declaration: unknown, pipelineDir: string): { lock: Lock; findings: Finding[] } {
  const lock: Lock = { schemaVersion: 1, datasets: {}, weights: {} }
  const findings: Finding[] = []
  for (const declared of declaredDatasets(declaration)) {
    if (declared.root === undefined) {
      findings.push(hubDataset(declared))
      continue
    }
    if (Object.hasOwn(lock.datasets, declared.key)) continue
    const { entry, problems } = readDataset(resolvePath(pipelineDir, declared.root), {
      repo: declared.repo ?? null,
      revision: declared.revision ?? null,
    })
    if (entry !== undefined) lock.datasets[declared.key] = entry
    findings.push(...problems.map((problem) => datasetFinding(problem, declared, declared.root ?? '')))
  }
  for (const declared of declaredWeights(declaration)) {
    if (Object.hasOwn(lock.weights, declared.key)) continue
    const { entry, problems } = readWeights(resolvePath(pipelineDir, declared.source), declared.revision ?? null)
    if (entry !== undefined) lock.weights[declared.key] = entry
    findings.push(...problems.map((problem) => weightsFinding(problem, declared)))
  }
  return { lock, findings }
}

/**
 * The lock to plan with: the file beside pipeline.ts where it has an entry, what is at hand on this machine where it has none.
 *
 * @returns `lock`: what to plan with; undefined when neither file nor data know anything. `fresh`: what `vla lock` writes (entries of
 *   the file stay where the declaration still names them and nothing could be looked at). `missing`: whether the file lacks an entry
 *   that is at hand and sound, so that `check` may write `lock` (not `fresh`, which would settle a disagreement in silence).
 */
export function loadLock(
  declaration: unknown,
  pipelineDir: string,
): { lock: Lock | undefined; fresh: Lock; missing: boolean; findings: Finding[] } {
  const file = readLock(pipelineDir)
  const made = makeLock(declaration, pipelineDir)
  const old = file.lock
  const datasets = new Set(declaredDatasets(declaration).map(({ key }) => key))
  const weights = new Set(declaredWeights(declaration).map(({ key }) => key))
  const kept: Lock = {
    schemaVersion: 1,
    datasets: among(old?.datasets, datasets),
    weights: among(old?.weights, weights),
  }
  const fresh: Lock = {
    schemaVersion: 1,
    datasets: { ...kept.datasets, ...made.lock.datasets },
    weights: { ...kept.weights, ...made.lock.weights },
  }
  const lock: Lock = {
    schemaVersion: 1,
    datasets: { ...made.lock.datasets, ...kept.datasets },
    weights: { ...made.lock.weights, ...kept.weights },
  }
  const known = new Set([...Object.keys(kept.datasets), ...Object.keys(kept.weights)])
  const couldNotLook = new Set(
    [...declaredDatasets(declaration), ...declaredWeights(declaration)]
      .filter(
        ({ key }) =>
          known.has(key) && !Object.hasOwn(made.lock.datasets, key) && !Object.hasOwn(made.lock.weights, key),
      )
      .map(({ path }) => JSON.stringify(path)),
  )
  // A source that the lock knows need not be on this machine.
  const findings = made.findings.filter(
    ({ id, path }) =>
      !(
        (id === 'VLA020' || id === 'VLA024') &&
        (couldNotLook.has(JSON.stringify(path)) || couldNotLook.has(JSON.stringify(path.slice(0, -1))))
      ),
  )
  const empty = Object.keys(lock.datasets).length === 0 && Object.keys(lock.weights).length === 0
  const sound = file.findings.length === 0 && made.findings.every(({ severity }) => severity !== 'error')
  const missing =
    sound && [...Object.keys(fresh.datasets), ...Object.keys(fresh.weights)].some((key) => !known.has(key))
  return {
    lock: empty ? undefined : lock,
    fresh,
    missing,
    findings: [...file.findings, ...findings, ...compareLock(old, made.lock, declaration)],
  }
}

/** Where the lock describes something else than what is at hand. Entries that only one side has are not compared. */
export function compareLock(lock: Lock | undefined, fresh: Lock, declaration: unknown): Finding[] {
  if (lock === undefined) return []
  const findings: Finding[] = []
  const compare = (
    declared: DeclaredDataset | DeclaredWeights,
    what: string,
    path: Finding['path'],
    locked: DatasetEntry | WeightsEntry | undefined,
    now: DatasetEntry | WeightsEntry | undefined,
  ): void => {
    if (locked === undefined || now === undefined || canonicalJson(locked) === canonicalJson(now)) return
    findings.push(
      lockFinding(
        'VLA023',
        path,
        `${lockFileName} describes another state of ${what} '${declared.key}': ${differences(locked, now)}.`,
        'Run `vla lock` if what is at hand is meant; else put back the data that the lock describes.',
      ),
    )
  }
  const seen = new Set<string>()
  for (const declared of declaredDatasets(declaration)) {
    if (seen.has(declared.key)) continue
    seen.add(declared.key)
    compare(declared, 'dataset', [...declared.path, 'root'], lock.datasets[declared.key], fresh.datasets[declared.key])
  }
  for (const declared of declaredWeights(declaration)) {
    if (seen.has(declared.key)) continue
    seen.add(declared.key)
    compare(declared, 'weights', declared.path, lock.weights[declared.key], fresh.weights[declared.key])
  }
  return findings
}

/** The first few places in which two entries differ, with both values where they are short. */
function differences(locked: unknown, now: unknown): string {
  const found: string[] = []
  const walk = (a: unknown, b: unknown, path: string): void => {
    if (found.length > 3 || canonicalJson({ a }) === canonicalJson({ a: b })) return
    if (
      typeof a === 'object' &&
      a !== null &&
      typeof b === 'object' &&
      b !== null &&
      !Array.isArray(a) &&
      !Array.isArray(b)
    ) {
      const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>]
      const keys = [...new Set([...Object.keys(left), ...Object.keys(right)])].sort()
      for (const key of keys)
        if (key !== 'fingerprint') walk(left[key], right[key], path === '' ? key : `${path}.${key}`)
      return
    }
    found.push(`${path} ${brief(a)} in the lock, ${brief(b)} at hand`)
  }
  walk(locked, now, '')
  if (found.length === 0) return 'the files differ'
  return found.length > 3 ? `${found.slice(0, 3).join('; ')}; and more` : found.join('; ')
}

function brief(value: unknown): string {
  if (value === undefined) return 'absent'
  const text = canonicalJson(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

function among<T>(entries: Record<string, T> | undefined, keys: ReadonlySet<string>): Record<string, T> {
  return Object.fromEntries(Object.entries(entries ?? {}).filter(([key]) => keys.has(key)))
}

function hubDataset({ repo, path }: DeclaredDataset): Finding {
  return lockFinding(
    'VLA020',
    [...path, 'repo'],
    `Dataset '${repo ?? ''}' is on the hub: its widths, cameras and statistics were not looked at.`,
    'Download it, name its folder with `root`, and run `vla lock`. The generated preflight looks on the target.',
    'info',
  )
}

function datasetFinding(problem: DatasetProblem, { path, repo }: DeclaredDataset, root: string): Finding {
  const at = [...path, 'root']
  switch (problem.kind) {
    case 'notFound':
      return lockFinding(
        'VLA020',
        at,
        `No LeRobot dataset at '${root}': ${problem.what}.`,
        repo === undefined
          ? 'Record the dataset there, or correct `root` (it is relative to pipeline.ts).'
          : `Download '${repo}' to that folder, or correct \`root\` (it is relative to pipeline.ts).`,
        // A dataset may lie on the cluster alone, or be recorded later: the plan is unknown there, and the preflight looks.
        problem.absent ? 'warning' : 'error',
      )
    case 'otherVersion':
      return lockFinding(
        'VLA026',
        at,
        `The dataset at '${root}' has format ${problem.version}; LeRobot reads v3.0.`,
        `Convert it: python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=${repo ?? '<org>/<name>'} --root=${shellWord(root)}`,
      )
    case 'empty':
      return lockFinding(
        'VLA022',
        at,
        `The dataset at '${root}' has no episodes.`,
        'Record at least one episode, then run `vla lock`.',
      )
    case 'rows':
      return lockFinding(
        'VLA021',
        at,
        `The dataset at '${root}' is not whole: the files in ${problem.folder} hold ${String(problem.rows)} ${problem.of}, meta/info.json says ${String(problem.said)}.`,
        'Copy the files that are missing, or take the folder anew from where it is whole.',
      )
    case 'unreadable':
      return lockFinding(
        'VLA021',
        at,
        `The dataset at '${root}' cannot be used: ${problem.file}: ${problem.what}.`,
        problem.file.endsWith('.parquet')
          ? 'Record again and let the recorder end with `finalize()`, or copy the file anew.'
          : 'Copy or record the dataset anew.',
      )
  }
}

function weightsFinding(problem: WeightsProblem, { path, source }: DeclaredWeights): Finding {
  switch (problem.kind) {
    case 'notFound':
      if (!isLocalPath(source)) {
        return lockFinding(
          'VLA024',
          path,
          `'${source}' is on the hub: its config and tensor names were not looked at.`,
          'Download it and name the folder (`./weights/...`), then run `vla lock`. The generated preflight looks on the target.',
          'info',
        )
      }
      return lockFinding(
        'VLA024',
        path,
        `There are no weights at '${source}'.`,
        `Correct the path${isAbsolute(source) ? '' : ' (it is relative to pipeline.ts)'}, or put the weights there.`,
      )
    case 'pickle':
      return lockFinding(
        'VLA024',
        path,
        `The weights at '${source}' are a pickle (${problem.file}), which is not looked at: opening one runs code.`,
        'Save them as safetensors.',
      )
    case 'adapter':
      return lockFinding(
        'VLA024',
        path,
        `The weights at '${source}' are an adapter (adapter_config.json) without its base${problem.base === null ? '' : `, '${problem.base}'`}.`,
        'Merge it into its base and save the whole model (peft: merge_and_unload), or name the base here and adapt it anew with lora().',
      )
    case 'unreadable':
      return lockFinding(
        'VLA024',
        path,
        `The weights at '${source}' cannot be used: ${problem.file}: ${problem.what}.`,
        'Copy them anew.',
      )
  }
}

/** A word for a POSIX shell line, quoted where it needs to be. */
function shellWord(text: string): string {
  return /^[\w./@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
