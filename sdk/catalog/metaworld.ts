/** Source: lerobot 0.6.1, lerobot/envs/metaworld_config.json, TASK_DESCRIPTIONS. */
const tasks = [
  'assembly-v3',
  'basketball-v3',
  'bin-picking-v3',
  'box-close-v3',
  'button-press-topdown-v3',
  'button-press-topdown-wall-v3',
  'button-press-v3',
  'button-press-wall-v3',
  'coffee-button-v3',
  'coffee-pull-v3',
  'coffee-push-v3',
  'dial-turn-v3',
  'disassemble-v3',
  'door-close-v3',
  'door-lock-v3',
  'door-open-v3',
  'door-unlock-v3',
  'drawer-close-v3',
  'drawer-open-v3',
  'faucet-close-v3',
  'faucet-open-v3',
  'hammer-v3',
  'hand-insert-v3',
  'handle-press-side-v3',
  'handle-press-v3',
  'handle-pull-side-v3',
  'handle-pull-v3',
  'lever-pull-v3',
  'peg-insert-side-v3',
  'peg-unplug-side-v3',
  'pick-out-of-hole-v3',
  'pick-place-v3',
  'pick-place-wall-v3',
  'plate-slide-back-side-v3',
  'plate-slide-back-v3',
  'plate-slide-side-v3',
  'plate-slide-v3',
  'push-back-v3',
  'push-v3',
  'push-wall-v3',
  'reach-v3',
  'reach-wall-v3',
  'shelf-place-v3',
  'soccer-v3',
  'stick-pull-v3',
  'stick-push-v3',
  'sweep-into-v3',
  'sweep-v3',
  'window-close-v3',
  'window-open-v3',
] as const

export type MetaworldTask = (typeof tasks)[number]

/** Tasks of MetaWorld that LeRobot's environment has. */
export const metaworldTasks: readonly string[] = tasks

/** Steps per second. Source: lerobot 0.6.1, lerobot/envs/metaworld.py, metadata render_fps. */
export const metaworldRate = 80

/** Bounds of every action dimension, to which actions are clipped. Source: lerobot 0.6.1, lerobot/envs/metaworld.py, action_space. */
export const metaworldActions = { low: -1, high: 1 } as const
