/** Programs that judge emitted text: CPython, bash, ruff. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { PositionEncoding, Workspace, type Diagnostic } from '@astral-sh/ruff-wasm-nodejs'

export const repository = path.resolve(import.meta.dirname, '../..')

/** CPython: the repository's environment, else whatever `python3` is. */
const python = [path.join(repository, '.venv/bin/python')].find((file) => existsSync(file)) ?? 'python3'

/** Runs a Python program with a JSON value on stdin; gives back the JSON that it prints. */
export function askPython(program: string, input: unknown): unknown {
  const output = execFileSync(python, ['-I', '-c', program], {
    input: JSON.stringify(input),
    encoding: 'utf8',
    env: { ...process.env, PYTHONIOENCODING: 'utf-8', PYTHONUTF8: '1' },
    maxBuffer: 1 << 28,
  })
  return JSON.parse(output)
}

/** Compiles each source as CPython would; throws with the first that it rejects. Warnings (bad escapes) are errors. */
export function compilePython(sources: readonly { readonly name: string; readonly source: string }[]): void {
  askPython(
    `
import json, sys, warnings
warnings.simplefilter("error")
for item in json.load(sys.stdin):
    compile(item["source"], item["name"], "exec")
print("true")
`,
    sources,
  )
}

/** Stops with bash's own message where it cannot parse the script. */
export function parseBash(source: string): void {
  const { status, stderr } = spawnSync('bash', ['-n'], { input: source, encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
}

/** What shellcheck says, one finding a line; undefined where it is not installed. */
export function shellcheck(source: string): string | undefined {
  const { status, stdout, error } = spawnSync('shellcheck', ['--shell=bash', '--format=gcc', '-'], {
    input: source,
    encoding: 'utf8',
  })
  if (error !== undefined) return undefined
  return status === 0 ? '' : stdout
}

let workspace: Workspace | undefined

/** Findings of ruff with the rules that every generated file obeys, as `path:row: code message`. */
export function ruff(name: string, source: string): string[] {
  workspace ??= new Workspace(
    {
      'line-length': 120,
      'target-version': 'py312',
      lint: {
        select: ['F', 'E9', 'W6', 'PLE', 'ANN', 'I', 'UP'],
        isort: { 'known-first-party': ['hooks', 'model', 'preflight', 'train', 'vla_runtime'] },
      },
    },
    PositionEncoding.Utf16,
  )
  const findings = workspace.check(source) as Diagnostic[]
  return findings.map(
    (finding) => `${name}:${finding.start_location.row}: ${finding.code ?? 'syntax'} ${finding.message}`,
  )
}

/** Texts that break naive emitters. No NUL, no lone surrogate: those are refused. */
export const hostile = [
  '',
  ' ',
  '"',
  "'",
  '\'"',
  '"""',
  '""""',
  "'''",
  '\\',
  '\\\\"',
  '\\"""',
  'a\nb',
  'a\r\nb\rc',
  '\t',
  '\u0001\u001b[31m\u007f\u0085',
  '\u2028\u2029',
  '\u202edrowssap\u202c',
  'zero\u200bwidth\ufeff',
  '$(touch /tmp/owned)',
  '`touch /tmp/owned`',
  '${HOME}',
  '$HOME; rm -rf /',
  '{instruction}',
  '{{}} %s %(x)s',
  '# noqa',
  '# type: ignore',
  'fmt: off',
  '# fmt: off\n# fmt: skip',
  'pyright: basic',
  '-*- coding: latin-1 -*-',
  'naïve café',
  '把红色的块放进盒子',
  '🤖🦾\u{10ffff}',
  'e\u0301',
  '#SBATCH --uid=0',
  'x\n#SBATCH --uid=0',
  "'; import os; os.system('x'); '",
  '\\N{BULLET} \\x41 \\u0041',
  '-rf',
  '--help',
  '~/data',
  '../../etc/passwd',
  '*?[a-z]',
  'a  b   c ',
  'yes',
  '1_000',
  'None',
] as const
