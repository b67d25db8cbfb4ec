/**
 * ResNets of torchvision 0.26 as ACT and Diffusion Policy cut them: without pooling and classifier.
 * Source: torchvision/models/resnet.py.
 */
import { convLayer, normLayer, type Parameter } from '../parameters.ts'
import type { StateBuffer } from './facts.ts'

const depths = {
  resnet18: [2, 2, 2, 2],
  resnet34: [3, 4, 6, 3],
  resnet50: [3, 4, 6, 3],
  resnet101: [3, 4, 23, 3],
  resnet152: [3, 8, 36, 3],
} as const

export type Resnet = keyof typeof depths

export const resnets = Object.keys(depths) as [Resnet, ...Resnet[]]

/** Two convolutions of 3x3 per block; their dilation cannot be changed. */
export function isBasic(name: Resnet): boolean {
  return name === 'resnet18' || name === 'resnet34'
}

export interface ResnetFacts {
  /** Channels of the last map. */
  readonly width: number
  readonly blocks: number
  readonly parameters: readonly Parameter[]
  readonly buffers: readonly StateBuffer[]
}

/**
 * @param norm `frozen`: BatchNorm with constant statistics, all of it buffers. `batch`: BatchNorm. `group`: GroupNorm.
 * @param names the names of `conv1`, `bn1` and the four stages
 */
export function torchvisionResnet(
  name: Resnet,
  norm: 'frozen' | 'batch' | 'group',
  names: readonly [string, string, string, string, string, string],
): ResnetFacts {
  const parameters: Parameter[] = []
  const buffers: StateBuffer[] = []
  const normalised = (at: string, width: number): void => {
    if (norm === 'frozen') buffers.push(...normLayer(at, width).map((own) => ({ name: own.name, shape: own.shape })))
    else parameters.push(...normLayer(at, width))
    if (norm === 'group') return
    buffers.push({ name: `${at}.running_mean`, shape: [width] }, { name: `${at}.running_var`, shape: [width] })
    if (norm === 'batch') buffers.push({ name: `${at}.num_batches_tracked`, shape: [] })
  }
  const [conv1, bn1, ...stages] = names
  parameters.push(...convLayer(conv1, 3, 64, 7, false))
  normalised(bn1, 64)
  const basic = isBasic(name)
  let width = 64
  let blocks = 0
  for (const [stage, at] of stages.entries()) {
    const inner = 64 * 2 ** stage
    const outer = basic ? inner : 4 * inner
    const kernels = basic ? [3, 3] : [1, 3, 1]
    for (let index = 0; index < (depths[name][stage] ?? 0); index++) {
      const block = `${at}.${String(index)}`
      let inputs = width
      for (const [position, kernel] of kernels.entries()) {
        const outputs = position === kernels.length - 1 ? outer : inner
        parameters.push(...convLayer(`${block}.conv${String(position + 1)}`, inputs, outputs, kernel, false))
        normalised(`${block}.bn${String(position + 1)}`, outputs)
        inputs = outputs
      }
      if (index === 0 && (stage > 0 || width !== outer)) {
        parameters.push(...convLayer(`${block}.downsample.0`, width, outer, 1, false))
        normalised(`${block}.downsample.1`, outer)
      }
      width = outer
      blocks++
    }
  }
  return { width, blocks, parameters, buffers }
}

/** Side of the last map: five halvings, each rounding up; with the last stride dilated, four. */
export function mapSide(pixels: number, halvings = 5): number {
  let side = pixels
  for (let halving = 0; halving < halvings; halving++) side = Math.ceil(side / 2)
  return side
}
