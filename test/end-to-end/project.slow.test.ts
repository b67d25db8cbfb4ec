/**
 * Generated projects on demonstrations from the real simulator: declared, checked, built, trained by two processes, packed, reloaded,
 * rolled out. Each variant is a different way through the runtime.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const folder = path.join(root, 'build', 'end-to-end') // below the repository, so that its .venv is found
const python = path.join(root, '.venv', 'bin', 'python')
const environment = { ...process.env, HF_HUB_OFFLINE: '1', OMP_NUM_THREADS: '1' }

function vla(args: readonly string[], more: Readonly<Record<string, string>> = {}): string {
  return execFileSync(process.execPath, [path.join(root, 'dist/cli/bin.js'), ...args], {
    cwd: folder,
    env: { ...environment, ...more },
    encoding: 'utf8',
    stdio: 'pipe',
  })
}

function json(file: string): unknown {
  return JSON.parse(readFileSync(path.join(folder, file), 'utf8'))
}

interface Verification {
  readonly largestDifference: number
  readonly tolerance: number
  readonly update: number
}

const trunk = (spare: string): string =>
  `causalLM({ config: { model_type: 'llama', hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4${spare} } })`

const composed = (parts: string): string =>
  `composed({ cameras: ['front'], ${parts}, prompt: '{instruction}', promptTokens: 96 })`
const map = `timmVision('convnext_atto', { imageSize: 64, output: 'map', layer: 0 })`
const patches = `timmVision('vit_tiny_patch16_224', { imageSize: 64 })`

interface Variant {
  readonly name: string
  readonly imports: string
  readonly model: string
  readonly rest: string
  readonly exports: readonly string[]
  /** Beyond what every variant has. */
  readonly environment?: Readonly<Record<string, string>>
}

const seed = Number(process.env['VLA_TEST_SEED'] ?? '0')
const whole = process.env['VLA_TEST_DRAW'] !== undefined

/** Both ways in which flow matching sees the trunk in the whole suite, else the one that VLA_TEST_SEED chooses. */
const flows = [
  {
    name: 'joint',
    action: `flowMatching({ attention: 'joint', chunk: 4, hidden: 24, steps: 4 })`,
    modules: `action: { recompute: 'full' },`,
  },
  { name: 'flow', action: 'flowMatching({ chunk: 4, hidden: 32, layers: 1, heads: 2, steps: 4 })', modules: '' },
].filter((_, index) => whole || index === seed % 2)

const variants: readonly Variant[] = [
  {
    name: 'regression',
    imports:
      'causalLM, composed, timmVision, regression, spatialSoftArgmax, until, lastLayers, fsdp2, imageAugmentation',
    model: composed(
      `vision: ${map}, projector: spatialSoftArgmax({ points: 8 }), language: ${trunk('')}, state: true, action: regression({ chunk: 4, hidden: 32 })`,
    ),
    rest: `normalize: { state: 'meanStd', action: 'minMax', constant: 'pass' },
      augment: imageAugmentation({ crop: 0.9, brightness: 0.2 }),
      modules: { vision: { lr: 1e-3, freeze: until(2, { thenTrain: lastLayers(1), rewarm: 2 }) }, language: { dtype: 'bf16', recompute: 'full' } },
      parallel: fsdp2({ shard: 'full' }),`,
    exports: ['hf', 'lerobot'],
  },
  ...flows.map(({ name, action, modules }) => ({
    name,
    imports: 'causalLM, composed, timmVision, flowMatching, mlp, lora, fsdp2',
    model: composed(
      `vision: ${patches}, projector: mlp({ layers: 2 }), language: ${trunk('')}, state: true, action: ${action}`,
    ),
    // the gripper of a reaching expert never moves: its quantiles differ by rounding alone
    rest: `normalize: { state: 'quantiles', action: 'quantiles', constant: 'zero', clip: true },
      modules: { language: { adapt: lora({ rank: 4 }) }, ${modules} },
      parallel: fsdp2({ shard: 'gradOp' }),`,
    exports: ['hf', 'lerobot'],
  })),
  {
    name: 'tokens',
    imports: 'causalLM, composed, timmVision, tokens, linear, ddp',
    model: composed(`vision: ${patches}, projector: linear(), language: ${trunk('')}, action: tokens({ chunk: 2 })`),
    rest: `normalize: { action: 'quantiles', constant: 'pass', clip: true },
      parallel: ddp(),`,
    exports: ['hf'],
  },
]

/** LeRobot's policies, small. SmolVLA's base and the tokenizers are directories that a script of the Python tests writes. */
const policies: readonly Variant[] = [
  {
    name: 'act',
    imports: 'act, until',
    model: `act({ cameras: ['front'], chunk: 8, config: { dim_model: 32, n_heads: 2, dim_feedforward: 64, n_encoder_layers: 2, n_vae_encoder_layers: 1, latent_dim: 8, pretrained_backbone_weights: null } })`,
    rest: `normalize: { constant: 'pass' },
      modules: { encoder: { recompute: 'full' }, vision: { lr: 1e-4, freeze: until(2) } },`,
    exports: ['lerobot'],
  },
  {
    name: 'diffusion',
    imports: 'diffusion, ddp',
    model: `diffusion({ cameras: ['front'], chunk: 8, config: { down_dims: [16, 32], n_groups: 4, diffusion_step_embed_dim: 16, num_train_timesteps: 10, num_inference_steps: 3, use_group_norm: true, pretrained_backbone_weights: null } })`,
    rest: `normalize: { constant: 'pass' },
      parallel: ddp(),`,
    exports: ['lerobot'],
  },
  {
    name: 'smolvla',
    imports: 'smolvla, lora, fsdp2',
    model: `smolvla({ cameras: ['front'], chunk: 6, config: { vlm_model_name: './smolvlm', load_vlm_weights: false, num_vlm_layers: 4, num_steps: 3, resize_imgs_with_padding: [32, 32], freeze_vision_encoder: false, train_expert_only: false } })`,
    rest: `normalize: { constant: 'pass' },
      modules: { language: { adapt: lora({ rank: 2 }), recompute: 'full' }, vision: { freeze: 'always' } },
      parallel: fsdp2({ shard: 'gradOp' }),`,
    exports: ['lerobot'],
  },
  {
    name: 'xvla',
    imports: 'xvla',
    model: `xvla({ cameras: ['front'], chunk: 6, config: ${JSON.stringify({
      florence_config: {
        vision_config: {
          depths: [1, 1],
          patch_size: [7, 3],
          patch_stride: [4, 2],
          patch_padding: [3, 1],
          patch_prenorm: [false, true],
          embed_dim: [16, 24],
          num_heads: [2, 2],
          num_groups: [2, 2],
          window_size: 4,
          drop_path_rate: 0,
          projection_dim: 32,
        },
        text_config: {
          model_type: 'bart',
          d_model: 32,
          encoder_layers: 2,
          decoder_layers: 1,
          encoder_attention_heads: 2,
          decoder_attention_heads: 2,
          encoder_ffn_dim: 48,
          decoder_ffn_dim: 48,
          vocab_size: 300,
          max_position_embeddings: 128,
          pad_token_id: 1,
          dropout: 0,
        },
      },
      tokenizer_name: './words',
      hidden_size: 32,
      depth: 2,
      num_heads: 2,
      num_domains: 2,
      len_soft_prompts: 4,
      dim_time: 8,
      max_len_seq: 128,
      action_mode: 'auto',
      max_action_dim: 6,
      max_state_dim: 5,
      num_denoising_steps: 3,
      tokenizer_max_length: 16,
    })} })`,
    rest: `normalize: { constant: 'pass' },
      modules: { policy: { recompute: 'full' } },`,
    exports: ['lerobot'],
  },
]

/** pi0 and pi0.5 have no option for their size: every process builds them small, with a tokenizer of letters in the hub's cache. */
const small: Readonly<Record<string, string>> = {
  PYTHONPATH: ['policies/small', 'policies'].map((name) => path.join(root, 'test/python', name)).join(path.delimiter),
  HF_HUB_CACHE: path.join(folder, 'hub'),
  SMALL_PI_DEPTH: '18', // the catalog's patterns name the last layer
}
const padded = 'max_state_dim: 6, max_action_dim: 6, image_resolution: [32, 32], num_inference_steps: 3'
const pis: readonly Variant[] = [
  {
    name: 'pi0',
    imports: 'pi0, lora, until',
    model: `pi0({ cameras: ['front'], chunk: 6, config: { ${padded} } })`,
    rest: `normalize: { constant: 'pass' },
      modules: { vision: { freeze: until(2) }, language: { adapt: lora({ rank: 2 }), recompute: 'full' }, expert: { recompute: 'full' } },`,
    exports: ['lerobot'],
    environment: small,
  },
  {
    name: 'pi05',
    imports: 'pi05, fsdp2',
    model: `pi05({ cameras: ['front'], chunk: 6, tokenizer: './words', config: { ${padded} } })`,
    rest: `normalize: { constant: 'pass' },
      modules: { language: { dtype: 'bf16' } },
      parallel: fsdp2({ shard: 'gradOp' }),`,
    exports: ['lerobot'],
    environment: small,
  },
]

/** All of them in the whole suite, else one that VLA_TEST_SEED chooses beside ACT. */
const [first, ...others] = [...policies, ...pis]
const drawn = whole ? others : [others[seed % others.length]]
const chosen = [first, ...drawn].filter((variant) => variant !== undefined)

function declaration({ name, imports, model, rest, exports }: Variant): string {
  return `import { cpus, defineVLAPipeline, hf, lerobot, lerobotDataset, simulation, torchrun, ${imports} } from 'vla-pipeline'

export default defineVLAPipeline({
  name: '${name}',
  model: ${model},
  data: lerobotDataset({ root: 'data/metaworld', holdout: [0] }),
  cameras: { front: 'observation.image' },
  hardware: cpus({ processes: 2 }),
  training: { updates: 4, globalBatch: 8, microBatch: 2, lr: 1e-3, seed: 5, validateEvery: 2 },
  checkpoint: { every: 2, keep: 2 },
  evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], episodes: 1, maxSteps: 6, imageSize: 64 }),
  export: [${exports.map((kind) => `${kind}()`).join(', ')}],
  launch: [torchrun()],
  ${rest}
})
`
}

describe('a generated project', () => {
  beforeAll(() => {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(path.join(folder, 'node_modules'), { recursive: true })
    writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }\n')
    for (const file of ['examples/quickstart/record.py', 'templates/runtime/vla_runtime/simulation.py']) {
      copyFileSync(path.join(root, file), path.join(folder, path.basename(file)))
    }
    execFileSync(python, ['record.py', '--task', 'reach-v3=3', '--out', 'data/metaworld', '--processes', '1'], {
      cwd: folder,
      env: environment,
      stdio: 'pipe',
    })
    const directories = `
import sys, pathlib
sys.path.insert(0, ${JSON.stringify(path.join(root, 'test/python/policies'))})
import tiny
tiny.smolvlm_directory(pathlib.Path("."))
tiny.tokenizer().save_pretrained("words")
hub = pathlib.Path("hub/models--google--paligemma-3b-pt-224")
tiny.tokenizer().save_pretrained(hub / "snapshots" / ("0" * 40))
(hub / "snapshots" / ("0" * 40) / "config.json").write_text("{}")  # what transformers asks any repository for
(hub / "refs").mkdir()
(hub / "refs/main").write_text("0" * 40)
`
    execFileSync(python, ['-c', directories], { cwd: folder, env: environment, stdio: 'pipe' })
  })
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true })
  })

  it.each([...variants, ...chosen])('trains, resumes, packs and acts: $name', (variant) => {
    const run = (...args: string[]): string => vla(args, variant.environment)
    writeFileSync(path.join(folder, `${variant.name}.ts`), declaration(variant))
    const checked = JSON.parse(run('check', `${variant.name}.ts`, '--json')) as {
      ok: boolean
      diagnostics: { id: string; severity: string }[]
    }
    expect(checked.diagnostics.filter(({ severity }) => severity === 'error')).toEqual([])
    expect(checked.ok).toBe(true)
    run('build', `${variant.name}.ts`, '--out', variant.name)
    run('run', variant.name)

    const metrics = readFileSync(path.join(folder, variant.name, `runs/${variant.name}/metrics.jsonl`), 'utf8')
      .trim()
      .split('\n')
    const updates = metrics.map((line) => JSON.parse(line) as { update: number; loss: number; held_out?: number })
    expect(updates.map(({ update }) => update)).toEqual([0, 1, 2, 3])
    expect(updates.every(({ loss }) => Number.isFinite(loss))).toBe(true)
    expect(updates.filter(({ held_out }) => held_out !== undefined).map(({ update }) => update)).toEqual([1, 3])
    run('run', variant.name) // nothing is left to do
    expect(
      readFileSync(path.join(folder, variant.name, `runs/${variant.name}/metrics.jsonl`), 'utf8')
        .trim()
        .split('\n'),
    ).toEqual(metrics)

    run('pack', variant.name)
    for (const kind of variant.exports) {
      const verification = json(`${variant.name}/packages/${kind}/verification.json`) as Verification
      expect(verification.update).toBe(4)
      expect(verification.largestDifference).toBeLessThanOrEqual(verification.tolerance)
    }
    execFileSync(python, ['evaluate.py', '--package', `packages/${variant.exports.at(-1) ?? 'hf'}`], {
      cwd: path.join(folder, variant.name),
      env: { ...environment, ...variant.environment },
      stdio: 'pipe',
    })
    const results = json(`${variant.name}/evaluation/results.json`) as { episodes: { final_distance_m: number }[] }
    expect(results.episodes).toHaveLength(1)
    expect(results.episodes[0]?.final_distance_m).toBeGreaterThan(0)
    expect(existsSync(path.join(folder, variant.name, 'evaluation/reach-v3'))).toBe(true)
  })

  it('refuses a package whose weights were changed', () => {
    const tamper = `
import pathlib, sys
from safetensors.torch import load_file, save_file
path = pathlib.Path("packages/hf/model.safetensors")
tensors = load_file(path)
name = next(name for name in sorted(tensors) if name.startswith("vision_backbone"))
del tensors[name]
save_file(tensors, path, metadata={"format": "pt"})
from vla_runtime.errors import UserError
from vla_runtime.pack.checkpoint import open_checkpoint
from vla_runtime.pack.compare import verify_package
from vla_runtime.checkpoints import complete_checkpoints
from model import build_model
from train import MODULES
checkpoint = open_checkpoint(complete_checkpoints(pathlib.Path("runs/regression/checkpoints"))[0], build_model, MODULES)
try:
    verify_package(pathlib.Path("packages/hf"), checkpoint, "fp32")
except UserError as refused:
    print(refused)
    sys.exit(0)
sys.exit(1)
`
    const said = execFileSync(python, ['-c', tamper], {
      cwd: path.join(folder, 'regression'),
      env: environment,
      encoding: 'utf8',
      stdio: 'pipe',
    })
    expect(said).toContain("does not hold exactly this model's weights")
  })
})
