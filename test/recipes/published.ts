/**
 * What is public of the data and weights that the recipes name. The locks that `vla lock` writes carry a fingerprint of the files, so that
 * nothing can be put into a recipe's own lock from a page; here they let the rules see real widths, rates and statistics.
 */
import type { DatasetEntry, Lock, WeightsEntry } from '../../sdk/lock/lock.ts'
import { florence2Large } from '../../sdk/catalog/lerobot/xvla.ts'

const vector = (width: number, names: string[] | null = null): DatasetEntry['features'][string] => ({
  dtype: 'float32',
  shape: [width],
  names,
})
const camera = (dtype: 'image' | 'video', height: number, width: number): DatasetEntry['features'][string] => ({
  dtype,
  shape: [height, width, 3],
  names: ['height', 'width', 'channels'],
})
const entry = (
  facts: Pick<DatasetEntry, 'repo' | 'fps' | 'episodes' | 'frames' | 'features' | 'statistics'> & Partial<DatasetEntry>,
): DatasetEntry => ({ revision: null, fingerprint: '0'.repeat(64), codebaseVersion: 'v3.0', robotType: null, ...facts })

const endEffector = ['x', 'y', 'z', 'roll', 'pitch', 'yaw', 'gripper']

/** openvla/openvla-7b, config.json: norm_stats.bridge_orig, its num_transitions and num_trajectories. BridgeData V2 is recorded at 5 Hz. */
const bridge = entry({
  repo: 'lerobot/bridge',
  revision: 'v3.0',
  fps: 5,
  episodes: 60_064,
  frames: 2_135_463,
  features: { 'observation.images.image_0': camera('video', 256, 256), action: vector(7, endEffector) },
  statistics: {
    action: {
      mean: [
        0.0002334194869035855, 0.00013004911306779832, -0.00012762474943883717, -0.0001556558854645118,
        -0.0004039328487124294, 0.00023557482927571982, 0.5764579176902771,
      ],
      std: [
        0.009765930473804474, 0.013689135201275349, 0.012667362578213215, 0.028534092009067535, 0.030637972056865692,
        0.07691419124603271, 0.4973701536655426,
      ],
      min: [
        -0.4007510244846344, -0.13874775171279907, -0.22553899884223938, -3.2010786533355713, -1.8618112802505493,
        -6.279075622558594, 0,
      ],
      max: [
        0.41691166162490845, 0.25864794850349426, 0.21218234300613403, 3.122201919555664, 1.8618112802505493,
        6.280478477478027, 1,
      ],
      q01: [
        -0.02872725307941437, -0.04170349963009357, -0.026093858778476715, -0.08092105075716972, -0.09288699507713317,
        -0.20718276381492615, 0,
      ],
      q99: [
        0.028309678435325586, 0.040855254605412394, 0.040161586627364146, 0.08192047759890528, 0.07792850524187081,
        0.20382574498653397, 1,
      ],
    },
  },
})

/** dataset_statistics.json beside openvla-7b-finetuned-libero-spatial: libero_spatial_no_noops. LeRobot's copies have 10 Hz. */
const liberoSpatial = entry({
  repo: 'lerobot/libero_spatial_image',
  fps: 10,
  episodes: 432,
  frames: 52_970,
  features: {
    'observation.images.image': camera('image', 256, 256),
    'observation.images.wrist_image': camera('image', 256, 256),
    'observation.state': vector(8),
    action: vector(7, endEffector),
  },
  statistics: {
    action: {
      mean: [
        0.15312467515468597, 0.1370728462934494, -0.15526831150054932, -0.005176443140953779, -0.011208743788301945,
        -0.020194262266159058, 0.4578818082809448,
      ],
      std: [
        0.41272789239883423, 0.3472437262535095, 0.5086919665336609, 0.03726620972156525, 0.07244434952735901,
        0.057623643428087234, 0.4982786774635315,
      ],
      min: [-0.9375, -0.9375, -0.9375, -0.1875, -0.3675000071525574, -0.36000001430511475, 0],
      max: [0.9375, 0.9375, 0.9375, 0.1971428543329239, 0.33642858266830444, 0.375, 1],
      q01: [
        -0.7454732114076613, -0.6616071462631226, -0.9375, -0.1071428582072258, -0.20678570866584778,
        -0.1842857152223587, 0,
      ],
      q99: [
        0.9375, 0.8758928775787354, 0.9321428537368774, 0.1039285734295845, 0.17678570747375488, 0.14571428298950195, 1,
      ],
    },
  },
})

/** The dataset card of lerobot/pusht, and the extremes in the weights of lerobot/diffusion_pusht. */
const pusht = entry({
  repo: 'lerobot/pusht',
  fps: 10,
  episodes: 206,
  frames: 25_650,
  features: { 'observation.image': camera('video', 96, 96), 'observation.state': vector(2), action: vector(2) },
  statistics: {
    'observation.state': { min: [13.456424, 32.938293], max: [496.14618, 510.9579] },
    action: { min: [12, 25], max: [511, 511] },
  },
})

/** lerobot/xvla-base, config.json, as far as shapes depend on it: LeRobot reports the parameters that the catalog counts with it. */
const xvlaBase: WeightsEntry = {
  revision: null,
  fingerprint: '0'.repeat(64),
  config: {
    type: 'xvla',
    florence_config: JSON.parse(JSON.stringify(florence2Large)) as typeof florence2Large & Record<string, never>,
    max_action_dim: 20,
    max_state_dim: 20,
  },
  image: null,
  tokenizer: [],
  tensors: {},
  statistics: {},
}

export const published: Lock = {
  schemaVersion: 1,
  datasets: {
    'lerobot/bridge@v3.0': bridge,
    'lerobot/libero_spatial_image@main': liberoSpatial,
    'lerobot/pusht@main': pusht,
  },
  weights: { 'lerobot/xvla-base@main': xvlaBase },
}
