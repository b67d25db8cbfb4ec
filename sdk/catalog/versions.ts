/** Versions of what generated projects stand on. The lock file of the Python side is made from these. */

/** Python packages by name on PyPI. */
export const pythonVersions = {
  torch: '2.11.0',
  lerobot: '0.6.1',
  transformers: '5.5.4',
  timm: '1.0.31',
  peft: '0.21.2',
} as const
