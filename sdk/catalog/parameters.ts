/** Parameters of a model as the catalog describes them: names, shapes, and which layers an adapter can be put on. */

export interface Parameter {
  /** Name below the root of what is described. */
  readonly name: string
  readonly shape: readonly number[]
  /** `weight` of an `nn.Linear` or `nn.Conv2d`; everything else (embeddings, norms, biases, tokens) is 'other'. */
  readonly layer: 'linear' | 'conv' | 'other'
}

/** Number of elements. */
export function elements(parameters: Iterable<Parameter>): number {
  let sum = 0
  for (const { shape } of parameters) sum += shape.reduce((product, size) => product * size, 1)
  return sum
}

/** The same parameters below `root`. */
export function below(root: string, parameters: readonly Parameter[]): Parameter[] {
  return parameters.map((parameter) => ({ ...parameter, name: `${root}.${parameter.name}` }))
}

/** `nn.Linear(inputs, outputs)`. */
export function linearLayer(name: string, inputs: number, outputs: number, bias = true): Parameter[] {
  const weight: Parameter = { name: `${name}.weight`, shape: [outputs, inputs], layer: 'linear' }
  return bias ? [weight, vector(`${name}.bias`, outputs)] : [weight]
}

/** `nn.Conv2d(inputs, outputs, kernel, groups)`. */
export function convLayer(
  name: string,
  inputs: number,
  outputs: number,
  kernel: number,
  bias: boolean,
  groups = 1,
): Parameter[] {
  const weight: Parameter = { name: `${name}.weight`, shape: [outputs, inputs / groups, kernel, kernel], layer: 'conv' }
  return bias ? [weight, vector(`${name}.bias`, outputs)] : [weight]
}

/** Weight and bias of a layer, batch or group norm. */
export function normLayer(name: string, width: number): Parameter[] {
  return [vector(`${name}.weight`, width), vector(`${name}.bias`, width)]
}

/** A parameter that is a vector. */
export function vector(name: string, width: number): Parameter {
  return { name, shape: [width], layer: 'other' }
}

/** Any other parameter. */
export function tensor(name: string, ...shape: number[]): Parameter {
  return { name, shape, layer: 'other' }
}

/** An fnmatch pattern (`*`, `?`) as a regular expression over whole names. As in Python's fnmatch, `*` crosses dots. */
export function fnmatch(pattern: string): RegExp {
  const body = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${body}$`, 's')
}

/** Whether a name matches one of the fnmatch patterns. */
export function matchesAny(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => fnmatch(pattern).test(name))
}

/**
 * The layers that LoRA adapts.
 *
 * @param targets the last components of a layer's path (`q_proj`, `self_attn.q_proj`), or an fnmatch pattern over its whole path where
 *   it holds `*`; null: every linear layer. Explicit targets reach convolutions too, as in peft.
 * @param dead patterns of parameters that never get a gradient; they are passed over where `targets` is null
 */
export function adaptedLayers(
  parameters: readonly Parameter[],
  targets: readonly string[] | null,
  dead: readonly string[],
): Parameter[] {
  const path = (name: string): string => name.replace(/\.weight$/, '')
  return parameters.filter(({ name, layer }) => {
    if (layer === 'other') return false
    if (targets === null) return layer === 'linear' && !matchesAny(name, dead)
    return targets.some((target) =>
      target.includes('*')
        ? fnmatch(target).test(path(name))
        : path(name) === target || path(name).endsWith(`.${target}`),
    )
  })
}

/** Parameters that LoRA of this rank adds to a layer: `rank x inputs` and `outputs x rank` (a convolution's kernel stays in the first). */
export function adapterElements(layer: Parameter, rank: number): number {
  const [outputs = 0, ...inputs] = layer.shape
  return rank * (outputs + inputs.reduce((product, size) => product * size, 1))
}
