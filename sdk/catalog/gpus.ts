/** GPUs: what a rule or a type needs to know of them, each with its source. */

export interface Gpu {
  /**
   * Memory in bytes by its label. What data sheets call GB is GiB; the driver and, on some cards, ECC take a few percent of it.
   */
  readonly memoryBytes: number
  /** CUDA compute capability. */
  readonly computeCapability: `${number}.${number}`
  /** Tensor-core bfloat16 (compute capability 8.0 and later). */
  readonly bf16: boolean
  /** fp8 tensor cores (8.9 and later). */
  readonly fp8: boolean
  readonly source: string
}

const gib = 2 ** 30

export const gpuTable = {
  'H100-SXM-80GB': {
    memoryBytes: 80 * gib,
    computeCapability: '9.0',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/data-center/h100/',
  },
  'H100-PCIe-80GB': {
    memoryBytes: 80 * gib,
    computeCapability: '9.0',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/data-center/h100/',
  },
  'H200-SXM-141GB': {
    memoryBytes: 141 * gib,
    computeCapability: '9.0',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/data-center/h200/',
  },
  B200: {
    memoryBytes: 180 * gib,
    computeCapability: '10.0',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/data-center/dgx-b200/',
  },
  'A100-SXM-80GB': {
    memoryBytes: 80 * gib,
    computeCapability: '8.0',
    bf16: true,
    fp8: false,
    source: 'https://www.nvidia.com/en-us/data-center/a100/',
  },
  'A100-SXM-40GB': {
    memoryBytes: 40 * gib,
    computeCapability: '8.0',
    bf16: true,
    fp8: false,
    source: 'https://www.nvidia.com/en-us/data-center/a100/',
  },
  L40S: {
    memoryBytes: 48 * gib,
    computeCapability: '8.9',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/data-center/l40s/',
  },
  L4: {
    memoryBytes: 24 * gib,
    computeCapability: '8.9',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/data-center/l4/',
  },
  'RTX-6000-Ada': {
    memoryBytes: 48 * gib,
    computeCapability: '8.9',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/design-visualization/rtx-6000/',
  },
  'RTX-4090': {
    memoryBytes: 24 * gib,
    computeCapability: '8.9',
    bf16: true,
    fp8: true,
    source: 'https://www.nvidia.com/en-us/geforce/graphics-cards/40-series/rtx-4090/',
  },
  'RTX-3090': {
    memoryBytes: 24 * gib,
    computeCapability: '8.6',
    bf16: true,
    fp8: false,
    source: 'https://www.nvidia.com/en-us/geforce/graphics-cards/30-series/rtx-3090-3090ti/',
  },
  A10G: {
    memoryBytes: 24 * gib,
    computeCapability: '8.6',
    bf16: true,
    fp8: false,
    source: 'https://aws.amazon.com/ec2/instance-types/g5/',
  },
  'V100-SXM2-32GB': {
    memoryBytes: 32 * gib,
    computeCapability: '7.0',
    bf16: false,
    fp8: false,
    source: 'https://www.nvidia.com/en-us/data-center/v100/',
  },
  'V100-PCIE-16GB': {
    memoryBytes: 16 * gib,
    computeCapability: '7.0',
    bf16: false,
    fp8: false,
    source: 'https://www.nvidia.com/en-us/data-center/v100/',
  },
  T4: {
    memoryBytes: 16 * gib,
    computeCapability: '7.5',
    bf16: false,
    fp8: false,
    source: 'https://www.nvidia.com/en-us/data-center/tesla-t4/',
  },
} as const satisfies Record<string, Gpu>

type Names = typeof gpuTable

/** Written as a mapped type, so that the compiler's messages say `GpuName` and not fifteen names. */
export type GpuName = { [Name in keyof Names]: Name }[keyof Names]

export const gpuNames: readonly string[] = Object.keys(gpuTable)

/** The catalog's entry for a GPU, or undefined. */
export function findGpu(name: string): Gpu | undefined {
  return Object.hasOwn(gpuTable, name) ? gpuTable[name as GpuName] : undefined
}
