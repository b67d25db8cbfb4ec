/** `vla convert`: a checkpoint of one framework in the layout of another, verified by its actions. */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import * as z from 'zod'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { hostOf } from './io.ts'
import type { Io } from './io.ts'
import { packageFolder } from './package.ts'

/** Layouts by the word that stands before the colon. */
const LAYOUTS = ['openpi', 'lerobot', 'hf', 'prismatic', 'plugin'] as const

const HELP = `
Layouts:
  openpi:DIR     a checkpoint of openpi: JAX (params/) or PyTorch (model.safetensors), pi0 or pi0.5
  lerobot:DIR    a policy directory of LeRobot 0.6.1
  hf:DIR         OpenVLA's published layout
  prismatic:DIR  OpenVLA's native layout (checkpoints/*.pt)
  plugin:DIR     the policy of a lerobot package of this program

What a checkpoint does not say is asked for, all of it at once.

Examples:
  vla convert openpi:./checkpoints/pi05_mine/19999 lerobot:./pi05-mine --chunk 10 ...
  vla convert lerobot:./pi05-mine openpi:./back --asset-id my_robot`

interface Options {
  readonly chunk?: number
  readonly tokenizerLength?: number
  readonly camera?: Readonly<Record<string, string>>
  readonly stateDim?: number
  readonly actionDim?: number
  readonly deltaActions?: string
  readonly actionNames?: readonly string[]
  readonly discreteState?: 'yes' | 'no'
  readonly assetId?: string
  readonly tokenizer?: string
  readonly dtype?: string
  readonly actionSteps?: number
  readonly reference?: string
  readonly otherSizes?: boolean
  readonly crop?: string
  readonly python?: string
}

/** What the converter writes when it has ended by itself. */
const reportShape = z.discriminatedUnion('ok', [
  z.object({
    ok: z.literal(true),
    conversion: z.looseObject({ notes: z.array(z.string()) }),
    verification: z.looseObject({}),
  }),
  z.object({ ok: z.literal(false), message: z.string() }),
])

export function convertCommand({ add }: Registrar): void {
  add(
    new Command('convert')
      .description("write a checkpoint in another framework's layout, and compare the actions of the two")
      .argument('<from>', 'LAYOUT:DIR of what is there')
      .argument('<to>', 'LAYOUT:DIR of what is made; it must not exist, or be empty')
      .option('--chunk <n>', "actions per prediction (openpi's action_horizon)", positive)
      .option('--tokenizer-length <n>', "padded length of the prompt (openpi's max_token_len)", positive)
      .option(
        '--camera <camera=feature>',
        "LeRobot's feature for a camera, or CAMERA=none; once for each of openpi's base_0_rgb, left_wrist_0_rgb, right_wrist_0_rgb, or for OpenVLA's primary",
        camera,
      )
      .option('--state-dim <n>', "true width of the robot's state", positive)
      .option('--action-dim <n>', 'true width of an action', positive)
      .option('--delta-actions <mask>', "openpi's DeltaActions mask, as in make_bool_mask (6,-1), or none")
      .option('--action-names <names>', "names of an action's dimensions, with commas", (text) => text.split(','))
      .addOption(
        new Option(
          '--discrete-state <answer>',
          "whether pi0.5 reads the state as text (openpi's discrete_state_input)",
        ).choices(['yes', 'no']),
      )
      .option('--asset-id <id>', 'whose statistics: the folder under assets/ (openpi), the dataset (OpenVLA)')
      .option('--tokenizer <dir>', "directory of the model's tokenizer, which then travels along, or: hub")
      .addOption(
        new Option('--dtype <dtype>', "of the weights (default: the checkpoint's)").choices(['float32', 'bfloat16']),
      )
      .option(
        '--action-steps <n>',
        'actions that are executed before the policy is asked again (default: all)',
        positive,
      )
      .option('--reference <file>', 'stored batch with the actions to compare with (.npz); default: a fixed batch')
      .option('--crop <share>', "share of the area that training's random crop kept, or none (to plugin:)")
      .option('--other-sizes', "convert a model of sizes that LeRobot's configuration cannot say")
      .option(
        '--python <path>',
        'interpreter (default: the nearest .venv here or above, else the activated environment)',
      )
      .addHelpText('after', HELP),
    async (args, options, io) => convert(args, options, io),
  )
}

function positive(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError('A positive whole number is meant.')
  return value
}

function camera(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const [name = '', feature = '', ...more] = text.split('=')
  if (name === '' || feature === '' || more.length > 0)
    throw new InvalidArgumentError('CAMERA=FEATURE is meant, such as base_0_rgb=observation.images.top.')
  if (name in before) throw new InvalidArgumentError(`${name} is given twice.`)
  return { ...before, [name]: feature }
}

interface Place {
  readonly layout: (typeof LAYOUTS)[number]
  /** Absolute. */
  readonly path: string
}

async function convert([from = '', to = '']: readonly string[], options: Options, io: Io): Promise<Outcome> {
  const [{ environmentPython }, { runChild }, { CannotDo }] = await Promise.all([
    import('../python/environment.ts'),
    import('../python/child.ts'),
    import('../python/errors.ts'),
  ])
  const place = (text: string): Place => {
    const layout = LAYOUTS.find((name) => text.startsWith(`${name}:`))
    const path = layout === undefined ? '' : text.slice(layout.length + 1)
    if (layout === undefined || path === '')
      throw new CannotDo(`'${text}' is no LAYOUT:DIR.`, `Layouts: ${LAYOUTS.map((name) => `${name}:`).join(' ')}`)
    return { layout, path: resolve(io.cwd, path) }
  }
  const places = { from: place(from), to: place(to) }
  const tokenizer =
    options.tokenizer === undefined || options.tokenizer === 'hub'
      ? options.tokenizer
      : resolve(io.cwd, options.tokenizer)
  // The converter's names; what was not given is left out.
  const request = {
    ...places,
    chunk: options.chunk,
    tokenizer_length: options.tokenizerLength,
    cameras: options.camera,
    state_dim: options.stateDim,
    action_dim: options.actionDim,
    delta_actions: options.deltaActions,
    action_names: options.actionNames,
    discrete_state: options.discreteState === undefined ? undefined : options.discreteState === 'yes',
    asset_id: options.assetId,
    tokenizer,
    dtype: options.dtype,
    action_steps: options.actionSteps,
    reference: options.reference === undefined ? undefined : resolve(io.cwd, options.reference),
    other_sizes: options.otherSizes,
    crop: options.crop,
  }
  const host = hostOf(io)
  const python = await environmentPython(host, io.cwd, options.python)
  const folder = await mkdtemp(join(tmpdir(), 'vla-convert-'))
  try {
    const [asked, told] = [join(folder, 'request.json'), join(folder, 'report.json')]
    await writeFile(asked, JSON.stringify(request))
    const paths = ['convert', 'runtime'].map((name) => join(packageFolder, 'templates', name))
    const result = await runChild(python, ['-m', 'vla_convert', asked, told], {
      host,
      cwd: io.cwd,
      env: {
        PYTHONPATH: [...paths, ...(io.env['PYTHONPATH'] === undefined ? [] : [io.env['PYTHONPATH']])].join(delimiter),
        PYTHONUNBUFFERED: '1',
        PYTHONDONTWRITEBYTECODE: '1',
      },
      output: 'show',
    })
    if (result.startError !== null)
      throw new CannotDo(`${python} could not be started: ${result.startError}`, 'Make the environment again: vla env')
    if (!existsSync(told)) {
      const how = result.exitCode === null ? 'a signal' : `exit code ${String(result.exitCode)}`
      throw new CannotDo(`The converter ended with ${how}.`, 'What it said stands above.')
    }
    const report = reportShape.parse(JSON.parse(await readFile(told, 'utf8')))
    if (!report.ok) throw new CannotDo(report.message, '')
    const { conversion, verification } = report
    return {
      exit: EXIT.ok,
      data: { ...places, conversion, verification },
      summary: [`${places.to.path} is ready.`, ...conversion.notes.map((note) => `- ${note}`)].join('\n'),
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
