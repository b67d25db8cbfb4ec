import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const alias = { 'vla-pipeline': fileURLToPath(new URL('./sdk/index.ts', import.meta.url)) }

// Two projects: `fast` needs Node and a python3; `slow` (files named *.slow.test.ts) needs the Python environment or npm.
export default defineConfig({
  resolve: { alias },
  test: {
    projects: [
      {
        resolve: { alias },
        test: {
          name: 'fast',
          include: ['test/**/*.test.ts'],
          exclude: ['test/**/*.slow.test.ts', 'test/golden/**'],
          testTimeout: 30_000,
        },
      },
      {
        resolve: { alias },
        test: {
          name: 'slow',
          include: ['test/**/*.slow.test.ts'],
          testTimeout: 600_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
    ],
  },
})
