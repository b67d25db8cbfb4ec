/**
 * launch/slurm.sbatch: one task per node, torchrun starts the node's processes and the nodes meet through c10d.
 *
 * Slurm's signals: `--signal=B:USR1@120` reaches the batch shell two minutes before the time limit; on preemption the shell gets
 * TERM while the job is still RUNNING. In both cases the workers get TERM, the run ends after its current update, and the job goes
 * back into the queue, where it resumes from the newest complete checkpoint. A job that its owner cancels also gets TERM but is no
 * longer RUNNING; it stays cancelled. A job that fails by itself is not started again.
 */
import type { Pipeline } from '../../plan/plan.ts'
import { commentBlock } from './script.ts'
import { runFolder, writtenBy, type Project } from '../project.ts'
import { sbatchValue } from '../shell.ts'

type Slurm = Extract<Pipeline['launch'][number], { kind: 'slurm' }>

/** Seconds before the time limit at which the run is asked to stop: Slurm may be a minute early, torchrun gives its workers 30 s. */
const lead = 120

export function slurmScript(project: Project, slurm: Slurm): string {
  const { pipeline } = project
  const { hardware } = pipeline
  const perNode = hardware.kind === 'cpus' ? hardware.processes : hardware.perNode
  const options = [
    `--job-name=${sbatchValue(pipeline.name)}`,
    `--partition=${sbatchValue(slurm.partition)}`,
    ...(slurm.account === null ? [] : [`--account=${sbatchValue(slurm.account)}`]),
    `--time=${sbatchValue(slurm.time)}`,
    `--nodes=${hardware.nodes}`,
    '--ntasks-per-node=1',
    ...(hardware.kind === 'gpus' ? [`--gpus-per-node=${perNode}`, '--exclusive'] : [`--cpus-per-task=${perNode}`]),
    `--output=${sbatchValue('slurm-%x-%j.log')}`,
    '--open-mode=append',
    `--signal=B:USR1@${lead}`,
    slurm.requeue ? '--requeue' : '--no-requeue',
  ]
  const cores = hardware.kind === 'gpus' ? 'SLURM_CPUS_ON_NODE' : 'SLURM_CPUS_PER_TASK'
  return `#!/usr/bin/env bash
${options.map((option) => `#SBATCH ${option}`).join('\n')}

${commentBlock(`Trains on ${hardware.nodes === 1 ? 'one node' : `${hardware.nodes} nodes`}: cd here, then sbatch launch/slurm.sbatch. Started again, it resumes from the newest complete checkpoint in ${runFolder(project)}.`)}
#
${commentBlock(writtenBy(project))}
set -euo pipefail
cd "\${SLURM_SUBMIT_DIR:?start this with sbatch}"
if [[ ! -f train.py ]]; then
  echo "there is no train.py in $PWD: submit from the project's folder" >&2
  exit 2
fi
${slurm.setup.length === 0 ? '' : `\n# From pipeline.ts, verbatim.\n${slurm.setup.join('\n')}\n`}
export OMP_NUM_THREADS="\${OMP_NUM_THREADS:-$((\${${cores}:-${perNode}} > ${perNode} ? ${cores} / ${perNode} : 1))}"
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")

${slurm.requeue ? 'again=no\n' : ''}# shellcheck disable=SC2317 # called by the trap
stop() {
${
  slurm.requeue
    ? `  # A job that its owner cancelled is no longer RUNNING, and stays cancelled.
  if [[ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" == RUNNING ]]; then
    again=yes
  fi
`
    : ''
}  # Ends the run after its current update. torchrun kills what still runs after 30 s; the last complete checkpoint stands.
  scancel --signal=TERM "$SLURM_JOB_ID.0" || true
}
trap stop USR1 TERM

# One task per node; torchrun starts ${perNode === 1 ? 'its process' : `the ${perNode} processes of a node`}.
srun --ntasks-per-node=1 --kill-on-bad-exit=1 "\${PYTHON:-python}" -m torch.distributed.run \\
  --nnodes=${hardware.nodes} \\
  --nproc-per-node=${perNode} \\
  --rdzv-backend=c10d \\
  --rdzv-endpoint="\${hosts[0]}:$((20000 + SLURM_JOB_ID % 10000))" \\
  --rdzv-id="$SLURM_JOB_ID-\${SLURM_RESTART_COUNT:-0}" \\
  train.py "$@" &
step=$!

status=0
wait "$step" || status=$?
while kill -0 "$step" 2>/dev/null; do # a trapped signal ends \`wait\` early
  status=0
  wait "$step" || status=$?
done
${
  slurm.requeue
    ? `
if [[ $again == yes && $status -ne 0 ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
`
    : ''
}exit "$status"
`
}
