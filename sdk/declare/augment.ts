/** Image augmentation. */
import * as z from 'zod'

export interface ImageAugmentationOptions<Crop extends number = number> {
  /**
   * Share of the image's area that the random crop keeps, above 0 to 1. Evaluation and packages take the centre crop of the same area.
   * @default no crop
   */
  readonly crop?: Crop
  /**
   * Largest change of brightness, as a share of it, 0 to 1.
   * @default 0
   */
  readonly brightness?: number
  /**
   * Largest change of contrast, as a share of it, 0 to 1.
   * @default 0
   */
  readonly contrast?: number
  /**
   * Largest change of saturation, as a share of it, 0 to 1.
   * @default 0
   */
  readonly saturation?: number
  /**
   * Largest shift of the hue, in turns, 0 to 0.5.
   * @default 0
   */
  readonly hue?: number
}

export interface ImageAugmentation extends ImageAugmentationOptions {
  readonly kind: 'imageAugmentation'
}

/** Augmentation that changes colours alone. */
export interface UncroppedAugmentation extends ImageAugmentation {
  /** Not given: the whole image is seen. */
  readonly crop?: never
}

/**
 * Random crop and colour changes, a function of (seed, update, position in the global batch) alone.
 * OpenVLA: `imageAugmentation({ crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 })`.
 */
export function imageAugmentation<const Crop extends number = never>(
  options: ImageAugmentationOptions<Crop>,
): [Crop] extends [never] ? UncroppedAugmentation : ImageAugmentation {
  const augmentation: ImageAugmentation = { kind: 'imageAugmentation', ...options }
  // Without a crop it is an UncroppedAugmentation; the compiler cannot follow that through the spread.
  return augmentation as [Crop] extends [never] ? UncroppedAugmentation : ImageAugmentation
}

const strength = z.number().min(0).max(1)

export const augmentSchema: z.ZodType<ImageAugmentation> = z.strictObject({
  kind: z.literal('imageAugmentation'),
  crop: z.number().positive().max(1).exactOptional(),
  brightness: strength.exactOptional(),
  contrast: strength.exactOptional(),
  saturation: strength.exactOptional(),
  hue: z.number().min(0).max(0.5).exactOptional(),
})
