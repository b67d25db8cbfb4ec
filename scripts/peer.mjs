// `npm run demo:peer`, after `npm run demo:act`: the same policy on the same data with the same optimizer and schedule, trained by
// `lerobot-train` on the same cores for as long as our updates took, rolled out on the same seeds.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fail, root, run, python, table, title } from './steps.mjs'

const project = path.join(root, 'build/metaworld-reach')
const metrics = path.join(project, 'runs/metaworld-reach/metrics.jsonl')
if (!existsSync(metrics)) fail('There is no run to compare with: npm run demo:act comes first.')
const updates = readFileSync(metrics, 'utf8').trim().split('\n')
const milliseconds = 1000 * updates.reduce((sum, line) => sum + JSON.parse(line).seconds, 0)
const { pipeline } = JSON.parse(readFileSync(path.join(project, 'plan.json'), 'utf8'))
const { model, training, datasets, evaluate } = pipeline
const [{ lr, weightDecay }] = pipeline.modules

const output = path.join(root, 'build/peer')
rmSync(output, { recursive: true, force: true })
const flags = {
  'dataset.repo_id': 'local/reach',
  'dataset.root': path.resolve(root, 'examples/metaworld-reach', datasets[0].root),
  'policy.type': model.type,
  ...Object.fromEntries(Object.entries(model.config).map(([field, value]) => [`policy.${field}`, value])),
  'policy.n_action_steps': evaluate.actionSteps,
  'policy.device': 'cpu',
  'policy.push_to_hub': false,
  // The optimizer and the schedule of our run, not the preset of the policy.
  use_policy_training_preset: false,
  'optimizer.type': 'adamw',
  'optimizer.lr': lr,
  'optimizer.weight_decay': weightDecay,
  'optimizer.grad_clip_norm': training.clip,
  'scheduler.type': 'cosine_decay_with_warmup',
  'scheduler.num_warmup_steps': training.schedule.warmup,
  'scheduler.num_decay_steps': training.updates,
  'scheduler.peak_lr': lr,
  'scheduler.decay_lr': 0,
  batch_size: training.globalBatch,
  steps: 1_000_000, // it is stopped by the clock
  save_freq: 100,
  log_freq: 100,
  env_eval_freq: 0,
  num_workers: 2,
  seed: training.seed,
  output_dir: output,
}

title(`lerobot-train for ${(milliseconds / 60_000).toFixed(1)} minutes`)
await trainFor(milliseconds)
const checkpoints = path.join(output, 'checkpoints')
// The last one may have been cut off while it was written.
const steps = readdirSync(checkpoints)
  .filter((name) => existsSync(path.join(checkpoints, name, 'training_state/training_step.json')) && name !== 'last')
  .sort()
const last = steps.at(-1) ?? fail(`lerobot-train has left no checkpoint in ${checkpoints}.`)
const columns = { images: 'none', 'frozen image': 'image' }
const results = Object.entries(columns).map(([column, ablate]) => {
  title(`roll out step ${last}: ${column}`)
  const out = path.join(output, 'evaluation')
  const of = ['--package', path.join(checkpoints, last, 'pretrained_model'), '--out', out, '--ablate', ablate]
  run(python, ['evaluate.py', ...of, '--processes', '2'], { cwd: project, env: { OMP_NUM_THREADS: '1' } })
  const file = path.join(out, ablate === 'none' ? 'results.json' : `results-${ablate}-ablated.json`)
  return [column, JSON.parse(readFileSync(file, 'utf8')).summary]
})
process.stdout.write(`\nlerobot-train, ${Number(last)} steps (ours: ${updates.length})\n\n${table(results)}`)

/** Runs lerobot-train, and interrupts it when it has trained for this long. */
function trainFor(limit) {
  return new Promise((resolve) => {
    const env = { ...process.env, HF_HUB_OFFLINE: '1', HF_LEROBOT_HOME: path.join(output, '..', 'peer-home') }
    const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
    const child = spawn(path.join(root, '.venv/bin/lerobot-train'), args, { env, stdio: ['ignore', 'inherit', 'pipe'] })
    let training = false
    child.stderr.on('data', (text) => {
      process.stderr.write(text)
      if (training || !String(text).includes('Start offline training')) return
      training = true
      setTimeout(() => child.kill('SIGINT'), limit)
    })
    child.on('exit', (status) => (training ? resolve() : fail(`lerobot-train ended before it trained (${status}).`)))
  })
}
