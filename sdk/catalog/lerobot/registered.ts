/** What LeRobot 0.6.1 registers, described by the catalog or not. */

/** Policies that LeRobot registers itself. */
export const registeredTypes = [
  'act',
  'diffusion',
  'eo1',
  'evo1',
  'fastwam',
  'gaussian_actor',
  'groot',
  'lingbot_va',
  'molmoact2',
  'multi_task_dit',
  'pi0',
  'pi05',
  'pi0_fast',
  'smolvla',
  'tdmpc',
  'vla_jepa',
  'vqbet',
  'wall_x',
  'xvla',
] as const

/** A file of the hub that a policy loads with `trust_remote_code=True`: Python of its repository runs in the process. */
interface RemoteCode {
  /** Field of the policy's configuration that names it. */
  readonly field: string
  /** What it names by default; null: nothing. */
  readonly default: string | null
  readonly what: string
  /** Where LeRobot loads it. */
  readonly source: string
}

/** Types whose own files are code that is fetched. */
const remoteCode: Readonly<Partial<Record<(typeof registeredTypes)[number], RemoteCode>>> = {
  pi0_fast: {
    field: 'action_tokenizer_name',
    default: 'lerobot/fast-action-tokenizer',
    what: 'action tokenizer',
    source: 'lerobot/processor/tokenizer_processor.py, ActionTokenizerProcessorStep',
  },
  wall_x: {
    field: 'action_tokenizer_path',
    default: 'lerobot/fast-action-tokenizer',
    what: 'action tokenizer',
    source: 'lerobot/policies/wall_x/modeling_wall_x.py, from_pretrained',
  },
  groot: {
    field: 'base_model_path',
    default: 'nvidia/GR00T-N1.7-3B',
    what: 'base model',
    source: 'lerobot/policies/groot/modeling_groot.py, GR00TN17.from_pretrained',
  },
  gaussian_actor: {
    field: 'vision_encoder_name',
    default: null,
    what: 'vision encoder',
    source: 'lerobot/policies/gaussian_actor/modeling_gaussian_actor.py, _load_pretrained_vision_encoder',
  },
}

/** What a policy of this type fetches and runs, and from where; undefined where it runs no code but its own. */
export function remoteCodeOf(
  type: string,
  config: Readonly<Record<string, unknown>>,
): (RemoteCode & { readonly from: string }) | undefined {
  const code = Object.hasOwn(remoteCode, type) ? remoteCode[type as keyof typeof remoteCode] : undefined
  if (code === undefined) return undefined
  const said = Object.hasOwn(config, code.field) ? config[code.field] : code.default
  return typeof said === 'string' && said !== '' ? { ...code, from: said } : undefined
}
