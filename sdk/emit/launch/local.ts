/** launch/local.sh: torchrun on one node, or on each of several. */
import { commentBlock } from './script.ts'
import { runFolder, writtenBy, type Project } from '../project.ts'
import { shQuote } from '../shell.ts'

export function localScript(project: Project): string {
  const { hardware } = project.pipeline
  const perNode = hardware.kind === 'cpus' ? hardware.processes : hardware.perNode
  const several = hardware.nodes > 1
  const about = several
    ? `Trains on ${hardware.nodes} nodes. Start it on each of them with the first one's address: HEAD=node0 launch/local.sh`
    : `Trains on this machine with ${perNode} ${perNode === 1 ? 'process' : 'processes'}. Started again, it resumes from the newest complete checkpoint in ${runFolder(project)}.`
  const rendezvous = several
    ? [
        `--nnodes=${hardware.nodes}`,
        '--rdzv-backend=c10d',
        '--rdzv-endpoint="$HEAD:${PORT:-29500}"',
        `--rdzv-id=${shQuote(project.pipeline.name)}`,
      ]
    : ['--standalone', '--nnodes=1']
  return `#!/usr/bin/env bash
${commentBlock(about)}
#
${commentBlock(writtenBy(project))}
set -euo pipefail
cd "$(dirname "\${BASH_SOURCE[0]}")/.."
${several ? `: "\${HEAD:?set HEAD to the address of the first node}"\n` : ''}
# torchrun would set 1; each process gets its share of the cores.
cores=$(nproc)
export OMP_NUM_THREADS="\${OMP_NUM_THREADS:-$((cores > ${perNode} ? cores / ${perNode} : 1))}"

exec "\${PYTHON:-python}" -m torch.distributed.run \\
${[...rendezvous, `--nproc-per-node=${perNode}`, 'train.py "$@"'].map((line) => `  ${line}`).join(' \\\n')}
`
}
