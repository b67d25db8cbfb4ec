/** What the compiler knows of a model without running anything. */

declare const shape: unique symbol

/** What the compiler knows of a model: its modules with their traits, and its cameras. No value has this field. */
export interface ModelShape<Modules extends string, Cameras extends string, ModuleTraits> {
  readonly [shape]?: { readonly modules: Modules; readonly cameras: Cameras; readonly traits: ModuleTraits }
}
