/** How states and actions are normalised. */
import * as z from 'zod'

/**
 * `'meanStd'`: (x - mean) / std. `'minMax'`: to [-1, 1] by the extremes. `'quantiles'`: to [-1, 1] by q01 and q99 (OpenVLA).
 * `'identity'`: untouched.
 */
export type Normalization = 'meanStd' | 'minMax' | 'quantiles' | 'identity'

/**
 * Of pictures, which are numbers from 0 to 1. `'imagenet'`: (x - mean) / std with ImageNet's mean and std, as lerobot-train does it.
 * `'meanStd'`: with the dataset's. `'identity'`: untouched.
 */
export type ImageNormalization = 'imagenet' | 'meanStd' | 'identity'

export interface Normalize {
  /**
   * Normalisation of the proprioception.
   * @default 'meanStd'
   */
  readonly state?: Normalization
  /**
   * Normalisation of the actions.
   * @default 'minMax'; 'quantiles' for openvla
   */
  readonly action?: Normalization
  /**
   * What happens to a dimension whose range is zero: stop with its name, leave it unnormalised, or set it to zero.
   * @default 'refuse'
   */
  readonly constant?: 'refuse' | 'pass' | 'zero'
  /**
   * One flag per action dimension; false leaves the dimension unnormalised (OpenVLA's gripper).
   * @default all true; openvla: the last false
   */
  readonly actionMask?: readonly boolean[]
  /**
   * Clip normalised actions to [-1, 1].
   * @default true for quantiles, else false
   */
  readonly clip?: boolean
}

const normalization = z.enum(['meanStd', 'minMax', 'quantiles', 'identity'])

export const imageNormalization: z.ZodType<ImageNormalization> = z.enum(['imagenet', 'meanStd', 'identity'])

export const normalizeSchema: z.ZodType<Normalize> = z.strictObject({
  state: normalization.exactOptional(),
  action: normalization.exactOptional(),
  constant: z.enum(['refuse', 'pass', 'zero']).exactOptional(),
  actionMask: z.array(z.boolean()).min(1).exactOptional(),
  clip: z.boolean().exactOptional(),
})
