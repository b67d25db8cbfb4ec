/** Versions that the catalog's names, shapes and defaults were read from and are tested with. The Python lock file pins the same. */

/** Python packages by name on PyPI. */
export const pythonVersions = {
  torch: '2.11.0',
  lerobot: '0.6.1',
  transformers: '5.5.4',
  timm: '1.0.31',
  peft: '0.21.2',
} as const
