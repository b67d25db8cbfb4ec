/** What the compiler knows of a model without running anything. */
import type { Family } from './check.ts'

declare const shape: unique symbol

/** What the compiler knows of a model: its modules with their traits, its cameras, and its family. No value has this field. */
export interface ModelShape<Modules extends string, Cameras extends string, ModuleTraits, F extends Family> {
  readonly [shape]?: {
    readonly modules: Modules
    readonly cameras: Cameras
    readonly traits: ModuleTraits
    readonly family: F
  }
}
