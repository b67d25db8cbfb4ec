/** What normalised the pictures in lerobot-train, in the words of the declaration. */
import { describe, expect, it } from 'vitest'
import { readFlags } from '../../sdk/importer/flags.ts'
import { importLerobot } from '../../sdk/importer/lerobot.ts'
import { Ledger } from '../../sdk/importer/remarks.ts'

const base = ['--policy.type=act', '--dataset.repo_id=me/pick', '--policy.push_to_hub=false']

function imported(...flags: readonly string[]): ReturnType<typeof importLerobot> {
  const ledger = new Ledger()
  return importLerobot(
    readFlags([...base, ...flags], ledger).values,
    {
      from: 'a test',
      processes: 1,
      nodes: undefined,
      mixedPrecision: undefined,
      gpu: undefined,
      cameras: { front: 'observation.images.front' },
      dataset: undefined,
      pretrained: undefined,
      relocate: (path) => path,
      relocateWeights: (path) => path,
    },
    ledger,
  )
}

const mapping = (visual: string): string =>
  `--policy.normalization_mapping={"VISUAL": "${visual}", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"}`

describe('the pictures of an imported policy', () => {
  it("are normalised with ImageNet's statistics where nothing else was said", () => {
    expect(imported().text).not.toContain('images:')
  })

  it("are normalised with the dataset's where LeRobot was told so", () => {
    expect(imported('--dataset.use_imagenet_stats=false').text).toContain("images: 'meanStd'")
  })

  it('are left as they are where the policy was told so', () => {
    const { text, remarks } = imported(mapping('IDENTITY'))
    expect(text).toContain("images: 'identity'")
    expect(remarks.filter(({ kind }) => kind === 'ignored').map(({ field }) => field)).toContain(
      'dataset.use_imagenet_stats',
    )
  })

  it('are refused in a mode that has no word', () => {
    expect(imported(mapping('MIN_MAX')).problems).toMatchObject([
      { field: 'policy.normalization_mapping.VISUAL', message: 'MIN_MAX of images has no counterpart.' },
    ])
  })
})
