/** Versions of what generated projects stand on. The lock file of the Python side is made from these. */

/** Python packages by name on PyPI. */
export const pythonVersions = {
  torch: '2.11.0',
  lerobot: '0.6.1',
  transformers: '5.5.4',
  timm: '1.0.31',
  peft: '0.21.2',
} as const

/** Python of generated projects. */
export const pythonVersion = '3.12'

/** MetaWorld asks for `mujoco>=3`, but 3.17 and later fail when an environment is made. */
export const metaworldVersions = { metaworld: '3.0.0', mujoco: '3.3.7' } as const
