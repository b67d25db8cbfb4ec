/** What a training loop must know of LeRobot's policies beside their parameters. */
import type { PolicyType } from './facts.ts'

export interface LoopFacts {
  /** Cameras of the published weights, as the part of the feature's name behind `observation.images.`; empty where nothing is published. */
  readonly cameras: readonly string[]
  /** Field of the configuration that says how many actions are predicted at once. */
  readonly chunkField: string
  /**
   * How LeRobot's loss is made: a mean over action elements, or several terms of which each has its own denominator.
   * Source: `forward` in lerobot/policies/<type>/modeling_<type>.py.
   */
  readonly loss: 'perElement' | 'terms'
  /** Whether a camera that no dataset has is filled with a masked picture, or makes the policy fail. */
  readonly fillsCameras: boolean
}

const openpi = ['base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb'] as const

export const loop = {
  act: { cameras: [], chunkField: 'chunk_size', loss: 'terms', fillsCameras: false },
  diffusion: { cameras: [], chunkField: 'horizon', loss: 'perElement', fillsCameras: false },
  // lerobot/smolvla_base, config.json
  smolvla: {
    cameras: ['camera1', 'camera2', 'camera3'],
    chunkField: 'chunk_size',
    loss: 'perElement',
    fillsCameras: true,
  },
  // openpi's names, which lerobot/pi0_base and lerobot/pi05_base keep
  pi0: { cameras: openpi, chunkField: 'chunk_size', loss: 'perElement', fillsCameras: true },
  pi05: { cameras: openpi, chunkField: 'chunk_size', loss: 'perElement', fillsCameras: true },
  // lerobot/xvla-base, config.json
  xvla: { cameras: ['image', 'image2', 'image3'], chunkField: 'chunk_size', loss: 'perElement', fillsCameras: true },
} as const satisfies Readonly<Record<PolicyType, LoopFacts>>

/** The loop's facts of a policy; undefined for a type that the catalog does not describe. */
export function findLoop(type: string): LoopFacts | undefined {
  return Object.hasOwn(loop, type) ? loop[type as PolicyType] : undefined
}
