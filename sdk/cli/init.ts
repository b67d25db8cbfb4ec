/** `vla init`: starts a project from a template. */
import { existsSync } from 'node:fs'
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { Command, Option } from 'commander'
import { CannotDo } from '../python/errors.ts'
import type { Outcome, Registrar } from './command.ts'
import { Declined } from './declined.ts'
import { EXIT } from './exit-codes.ts'
import { hostOf } from './io.ts'
import type { Io } from './io.ts'
import { packageFolder, packageName, version } from './package.ts'
import { paint } from './style.ts'

/** Templates, each a folder of `templates/projects`, with what it is for. */
export const TEMPLATES = {
  quickstart: 'a small VLA that learns two MetaWorld tasks on two CPU processes',
  'openvla-lora': 'OpenVLA-7B with LoRA adapters on your LeRobot dataset, one node of GPUs',
  'own-vla': 'your own VLA: vision towers, a language model and a flow-matching action head',
  smolvla: 'SmolVLA: the action expert trains, one GPU',
  pi05: 'pi0.5: LoRA on the language model, the expert in full, one node of GPUs',
  act: 'ACT from scratch, one GPU',
  xvla: 'X-VLA with a learning rate per part, two GPUs',
  'any-lerobot-policy': 'any policy type that LeRobot or a plugin of it knows',
} as const

type Template = keyof typeof TEMPLATES

const PACKAGE_MANAGERS = ['npm', 'pnpm', 'yarn', 'bun'] as const
type PackageManager = (typeof PACKAGE_MANAGERS)[number]

/** What a folder may hold and still count as empty. */
const HARMLESS = new Set([
  '.git',
  '.gitattributes',
  '.github',
  '.gitlab-ci.yml',
  '.idea',
  '.vscode',
  '.venv',
  '.DS_Store',
  '.python-version',
  '.editorconfig',
  'LICENSE',
  'LICENSE.md',
])

/** Files of a template that lie elsewhere in our package, because others use them too. */
const SHARED: Readonly<Partial<Record<Template, Readonly<Record<string, string>>>>> = {
  quickstart: {
    'pipeline.ts': 'examples/quickstart/pipeline.ts',
    'record.py': 'examples/quickstart/record.py',
    'simulation.py': 'templates/runtime/vla_runtime/simulation.py',
  },
}

/** Names that npm does not pack, or treats specially, under their own name. */
const RENAMED: Readonly<Record<string, string>> = { _gitignore: '.gitignore' }

/** The workspace's TypeScript, which loads the plugin that tsconfig.json names. Settings that are there already stay as they are. */
const EDITOR_SETTINGS = '.vscode/settings.json'

interface Options {
  readonly template?: Template
  readonly yes?: boolean
  readonly install: boolean
  readonly git: boolean
  readonly pm?: PackageManager
}

export function initCommand({ add }: Registrar): void {
  add(
    new Command('init')
      .description('start a project')
      .argument('[dir]', 'folder of the project; made where it is missing')
      .addOption(new Option('--template <name>', 'what to start from').choices(Object.keys(TEMPLATES)))
      .option('-y, --yes', 'ask nothing: the template quickstart unless --template says otherwise')
      .addOption(
        new Option(
          '--pm <name>',
          'package manager (default: the one that started this, or whose lock file is here)',
        ).choices(PACKAGE_MANAGERS),
      )
      .option('--no-install', 'do not install the npm packages')
      .option('--no-git', 'do not make a git repository')
      .addHelpText('after', `\nTemplates:\n${templateList()}`),
    async (args, options, io) => init(args[0], options as unknown as Options, io),
  )
}

async function init(argument: string | undefined, options: Options, io: Io): Promise<Outcome> {
  const answers = await ask(argument, options, io)
  const directory = resolve(io.cwd, answers.directory)
  const files = await templateFiles(answers.template)
  if (existsSync(join(directory, EDITOR_SETTINGS))) files.delete(EDITOR_SETTINGS)
  await refuseOccupied(directory, [...files.keys()])

  const name = packageNameFrom(basename(directory))
  const manager = options.pm ?? (await detectManager(directory, io))
  for (const [path, source] of files) {
    const target = join(directory, path)
    await mkdir(dirname(target), { recursive: true })
    const content = await readFile(source)
    // `wx`: a file that appeared in the meantime is somebody's.
    await writeFile(target, path === 'package.json' ? manifest(content.toString('utf8'), name) : content, {
      flag: 'wx',
    })
  }
  const git = options.git && (await makeRepository(directory, io))
  const installed = options.install && (await install(directory, manager, io))

  const shown = relative(io.cwd, directory)
  const next = nextSteps(answers.template, shown, manager, installed)
  return {
    exit: EXIT.ok,
    data: {
      directory,
      template: answers.template,
      packageManager: manager,
      files: [...files.keys()].sort(),
      git,
      installed,
      next,
    },
    summary: [
      `${paint(io, 'green', 'Made')} ${shown === '' ? 'the project here' : shown} from the template ${answers.template}.`,
      '',
      'Next:',
      ...next.map((step, index) => `  ${String(index + 1)}. ${step}`),
    ].join('\n'),
  }
}

/** Where and what, from the arguments, from a person, or by default. */
async function ask(
  argument: string | undefined,
  options: Options,
  io: Io,
): Promise<{ directory: string; template: Template }> {
  const mayAsk = io.interactive && options.yes !== true
  if (!mayAsk) {
    if (options.template === undefined && options.yes !== true) {
      throw new Declined(
        'Which template? Nobody is at the terminal to be asked.',
        `Say --template ${Object.keys(TEMPLATES).join(' | ')}, or --yes for the quickstart.`,
      )
    }
    return { directory: argument ?? '.', template: options.template ?? 'quickstart' }
  }
  if (argument !== undefined && options.template !== undefined)
    return { directory: argument, template: options.template }
  const { select, text } = await import('@clack/prompts')
  const given = <T extends string>(answer: T | symbol): T => {
    if (typeof answer === 'symbol')
      throw new Declined('Nothing was made.', 'vla init --template NAME DIR asks nothing.')
    return answer
  }
  const directory =
    argument ?? given<string>(await text({ message: 'Where?', placeholder: './my-vla', defaultValue: './my-vla' }))
  const choices = Object.entries(TEMPLATES).map(([value, hint]) => ({ value: value as Template, label: value, hint }))
  const template =
    options.template ?? given<Template>(await select<Template>({ message: 'Which template?', options: choices }))
  return { directory, template }
}

/** The files of a template: path in the project -> where it lies in our package. Its own files win over those that all share. */
async function templateFiles(template: Template): Promise<Map<string, string>> {
  const files = new Map<string, string>()
  for (const folder of ['common', template]) {
    const root = join(packageFolder, 'templates/projects', folder)
    for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
      const path = relative(root, join(entry.parentPath, entry.name))
      if (!entry.isFile() || /(?:^|\/)(?:node_modules|__pycache__|\.venv)(?:\/|$)/.test(path)) continue
      const name = basename(path)
      files.set(join(path, '..', RENAMED[name] ?? name), join(root, path))
    }
  }
  for (const [path, source] of Object.entries(SHARED[template] ?? {})) files.set(path, join(packageFolder, source))
  return files
}

/** @throws CannotDo where files of a user stand in the way. */
async function refuseOccupied(directory: string, ours: readonly string[]): Promise<void> {
  if (!existsSync(directory)) return
  const inside = await readdir(directory).catch(() => {
    throw new CannotDo(`${directory} is not a folder.`, 'Name another one.')
  })
  const others = inside.filter((name) => !HARMLESS.has(name))
  const clashing = ours.filter((path) => existsSync(join(directory, path)))
  const inTheWay = [...new Set([...others, ...clashing])].sort()
  if (inTheWay.length === 0) return
  const shown =
    inTheWay.slice(0, 6).join(', ') + (inTheWay.length > 6 ? `, and ${String(inTheWay.length - 6)} more` : '')
  throw new CannotDo(`${directory} is not empty: ${shown}.`, 'Name a new folder. Nothing was changed.')
}

function packageNameFrom(folder: string): string {
  const name = folder
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '')
  return name === '' ? 'my-vla' : name
}

/** The template's package.json with the project's name and the version of vla that made it. */
function manifest(text: string, name: string): string {
  const content = JSON.parse(text) as { name: string; devDependencies: Record<string, string> }
  content.name = name
  content.devDependencies[packageName] = `^${version}`
  return `${JSON.stringify(content, undefined, 2)}\n`
}

async function detectManager(directory: string, io: Io): Promise<PackageManager> {
  const agent = /^(npm|pnpm|yarn|bun)\//.exec(io.env['npm_config_user_agent'] ?? '')?.[1]
  if (agent !== undefined) return agent as PackageManager
  const locks = {
    'pnpm-lock.yaml': 'pnpm',
    'yarn.lock': 'yarn',
    'bun.lock': 'bun',
    'bun.lockb': 'bun',
    'package-lock.json': 'npm',
  } as const
  for (let folder = directory; ; folder = resolve(folder, '..')) {
    for (const [file, manager] of Object.entries(locks)) if (existsSync(join(folder, file))) return manager
    const declared = await declaredManager(join(folder, 'package.json'))
    if (declared !== undefined) return declared
    if (resolve(folder, '..') === folder) return 'npm'
  }
}

async function declaredManager(file: string): Promise<PackageManager | undefined> {
  if (!existsSync(file)) return undefined
  const name = /"packageManager"\s*:\s*"(npm|pnpm|yarn|bun)@/.exec(await readFile(file, 'utf8'))?.[1]
  return name as PackageManager | undefined
}

/** A repository where the folder is in none. Without git that is said, not an error. */
async function makeRepository(directory: string, io: Io): Promise<boolean> {
  const { runChild } = await import('../python/child.ts')
  const host = hostOf(io)
  const inside = await runChild('git', ['rev-parse', '--is-inside-work-tree'], {
    host,
    cwd: directory,
    output: 'collect',
  })
  if (inside.exitCode === 0) return false
  const made = await runChild('git', ['init', '--quiet'], { host, cwd: directory, output: 'collect' })
  if (made.exitCode === 0) return true
  io.stderr.write(`No git repository was made: ${made.startError ?? made.stderr.trim()}\n`)
  return false
}

async function install(directory: string, manager: PackageManager, io: Io): Promise<boolean> {
  const { runChild } = await import('../python/child.ts')
  io.stderr.write(`${manager} install\n`)
  const result = await runChild(manager, ['install'], { host: hostOf(io), cwd: directory, output: 'show' })
  if (result.exitCode === 0) return true
  throw new CannotDo(
    `The project was made, but ${manager} install failed${result.startError === null ? '' : `: ${result.startError}`}.`,
    `cd ${directory} && ${manager} install`,
  )
}

function nextSteps(template: Template, directory: string, manager: PackageManager, installed: boolean): string[] {
  const exec = { npm: 'npx', pnpm: 'pnpm exec', yarn: 'yarn', bun: 'bunx' }[manager]
  return [
    ...(directory === '' ? [] : [`cd ${directory}`]),
    ...(installed ? [] : [`${manager} install`]),
    `${exec} vla check            # what is wrong with pipeline.ts, if anything`,
    `${exec} vla env              # the Python environment`,
    ...(template === 'quickstart'
      ? [`${manager} run record           # demonstrations from the simulator`]
      : ['edit pipeline.ts: your dataset, its cameras, your GPUs']),
    `${exec} vla build --out build   # the Python project`,
    `${exec} vla run build           # train; then: ${exec} vla pack build`,
  ]
}

function templateList(): string {
  const width = Math.max(...Object.keys(TEMPLATES).map((name) => name.length))
  return Object.entries(TEMPLATES)
    .map(([name, what]) => `  ${name.padEnd(width)}  ${what}`)
    .join('\n')
}
