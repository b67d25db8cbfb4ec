/** `--peft.*`: which modules get adapters, and on which of their layers. */
import type { PolicyFacts } from '../catalog/lerobot/facts.ts'
import type { PeftPart } from './fields.ts'
import type { ReadPolicy } from './read.ts'
import { same } from './recipe.ts'
import type { Ledger } from './remarks.ts'
import { Call } from './write.ts'

/**
 * `_get_default_peft_targets` of the policies that have one, as a regular expression over whole names.
 * Source: lerobot/policies/<type>/modeling_<type>.py.
 */
const projections = 'state_proj|action_in_proj|action_out_proj|action_time_mlp_in|action_time_mlp_out'
const gemma = String.raw`(.*\.gemma_expert\..*\.self_attn\.(q|v)_proj|model\.(${projections}))`
const defaultTargets: Readonly<Partial<Record<string, string>>> = {
  pi0: gemma,
  pi05: gemma,
  smolvla: String.raw`(model\.vlm_with_expert\.lm_expert\..*\.(q|v)_proj|model\.(${projections}))`,
}

/** Module -> its adapters; modules without are frozen. Undefined where they cannot be said here, which then stands in the ledger. */
export function importAdapters(
  peft: PeftPart,
  policy: ReadPolicy,
  facts: PolicyFacts,
  pretrained: string | undefined,
  ledger: Ledger,
): Readonly<Record<string, Call>> | undefined {
  const before = ledger.problems.length
  if (peft.method_type.toUpperCase() !== 'LORA')
    ledger.refuse(
      'peft.method_type',
      `'${peft.method_type}' has no counterpart; here adapters are LoRA.`,
      "Use 'LORA'.",
    )
  if (peft.init_type !== null)
    ledger.refuse(
      'peft.init_type',
      `'${peft.init_type}' has no counterpart: A is Kaiming-uniform, B is zero.`,
      'Remove it.',
    )
  if (pretrained === undefined && policy.type !== 'smolvla')
    ledger.refuse(
      'peft',
      'LeRobot refuses adapters on a policy that is not pretrained.',
      'Name the pretrained policy: --policy.path or --policy.pretrained_path.',
    )
  if ((peft.full_training_modules ?? []).length > 0)
    ledger.refuse(
      'peft.full_training_modules',
      'Here a module has adapters or trains whole.',
      "Remove it, and give those modules freeze: 'never' without adapt in pipeline.ts.",
    )
  const targets = peft.target_modules ?? defaultTargets[policy.type]
  if (targets === undefined)
    ledger.refuse(
      'peft.target_modules',
      `${policy.type} has no default targets, and LeRobot refuses to start.`,
      "Add --peft.target_modules=\"['q_proj', 'v_proj']\".",
    )
  if (targets === undefined || ledger.problems.length > before) return undefined

  const hit = matcher(targets, ledger)
  if (hit === undefined) return undefined
  const adapters: Record<string, Call> = {}
  const alpha = peft.lora_alpha ?? 8
  for (const { name, parameters, dead } of facts.modules) {
    if (parameters === undefined) {
      ledger.refuse(
        'peft.target_modules',
        `The layers of module '${name}' are not known without the base model's config.`,
        'Import it without --peft, and write adapt: lora(...) in pipeline.ts.',
      )
      continue
    }
    const named = (kinds: readonly string[]): string[] =>
      parameters.filter(({ layer }) => kinds.includes(layer)).map((each) => each.name.replace(/\.weight$/, ''))
    const layers = named(targets === 'all-linear' ? ['linear'] : ['linear', 'conv'])
    const wanted = layers.filter(hit)
    if (wanted.length === 0) continue
    const suffixes = [...new Set(wanted.map((layer) => layer.split('.').at(-1) ?? layer))]
    const reached = layers.filter((layer) => suffixes.includes(layer.split('.').at(-1) ?? layer))
    if (reached.length !== wanted.length) {
      ledger.refuse(
        'peft.target_modules',
        `It picks ${String(wanted.length)} of the layers of module '${name}' that are called ${suffixes.join(', ')}; here a name means all ${String(reached.length)}.`,
        'Import it without --peft, and write adapt: lora(...) in pipeline.ts.',
      )
      continue
    }
    const all = dead.length === 0 && same(wanted, named(['linear']))
    adapters[name] = new Call('lora', { rank: peft.r, alpha, targets: all ? undefined : suffixes })
  }
  if (Object.keys(adapters).length === 0 && ledger.problems.length === before)
    ledger.refuse('peft.target_modules', 'It matches no layer of the policy.', 'vla inspect lists the names.')
  if (peft.target_modules === null && policy.type === 'pi05')
    ledger.note(
      'changed',
      'peft.target_modules',
      "The default names layers of pi0 (action_time_mlp_in, action_time_mlp_out, state_proj): pi0.5's time_mlp_in and time_mlp_out get no adapters and stay frozen. The pipeline keeps that.",
      'lerobot/policies/pi05/modeling_pi05.py, _get_default_peft_targets',
    )
  if (peft.lora_alpha === null)
    ledger.note(
      'changed',
      'peft.lora_alpha',
      `Not said, it is peft's 8, whatever the rank: the adapters are scaled by 8 / ${String(peft.r)}. The pipeline keeps that.`,
      'lerobot/configs/default.py, PeftConfig; peft LoraConfig',
    )
  return ledger.problems.length > before ? undefined : adapters
}

/** A test over names of layers: peft takes a text as a regular expression over the whole name, a list as ends of names. */
function matcher(targets: readonly string[] | string, ledger: Ledger): ((layer: string) => boolean) | undefined {
  if (typeof targets !== 'string')
    return (layer) => targets.some((target) => layer === target || layer.endsWith(`.${target}`))
  if (targets === 'all-linear') return () => true
  try {
    const pattern = new RegExp(`^(?:${targets})$`)
    return (layer) => pattern.test(layer)
  } catch {
    ledger.refuse(
      'peft.target_modules',
      `'${targets}' cannot be read as a regular expression.`,
      'Give a list of names.',
    )
    return undefined
  }
}
