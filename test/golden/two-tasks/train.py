"""two-tasks: a composed VLA (test_convnext, llama, L1 regression) on two-tasks; 2 CPU processes, FSDP2, fully sharded.

Written by `vla build` 0.1.0 from pipeline.ts (plan c2bed236). Change pipeline.ts and build again; hooks.py is yours.
"""

import torch

import hooks
from model import CONFIG, build_model
from preflight import preflight
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.data import Dataset, holdout_loss, lerobot_samples
from vla_runtime.errors import run_or_explain
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, cosine
from vla_runtime.partition import Module, Partition
from vla_runtime.run import start_run
from vla_runtime.sharding import shard
from vla_runtime.weights import initialise

UPDATES = 7_000
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 64, 32, 1  # 32 samples x 2 processes x 1
SEED = 7

MODULES = [
    Module(
        "vision",
        parameters=["vision_backbone.*"],
        blocks=["vision_backbone.featurizer.stages_*.blocks.*"],
        lr=1e-3,
        weight_decay=0.0,
        dtype="fp32",  # On CPUs bf16 saves no time
    ),
    Module("projector", parameters=["projector.*", "state_projector.*"], lr=1e-3, weight_decay=0.01, dtype="fp32"),
    Module(
        "language",
        parameters=["language_model.*"],
        blocks=["language_model.model.layers.*"],
        lr=5e-4,
        weight_decay=0.01,
        dtype="fp32",
    ),
    Module(
        "action",
        parameters=["action_head.*"],
        blocks=["action_head.model.mlp_resnet_blocks.*"],
        lr=1e-3,
        weight_decay=0.01,
        dtype="fp32",
    ),
]


def main() -> None:
    # lock on the directory, process group, device, a log per rank
    run = start_run("runs/two-tasks", plan="plan.json", seed=SEED, world=2, skip_non_finite=10)
    mesh = device_mesh(shard=2)
    preflight(run)  # before anything is allocated
    data = lerobot_samples(
        [
            Dataset(
                "two-tasks",
                root="../../data/two-tasks",
                cameras={"front": "observation.image"},
                state="observation.state",
                action="action",
                holdout=[0, 1, 2, 3, 600, 601],
            )
        ],
        config=CONFIG,
        run=run,
        mesh=mesh,
        normalize_state="meanStd",
        normalize_action="minMax",
        constant="pass",
        action_mask=None,  # Every dimension is normalised
        clip=False,  # Nothing lies outside, or what does is meant
        global_batch=GLOBAL_BATCH,
        micro_batch=MICRO_BATCH,
        seed=SEED,
    )

    with torch.device("meta"):
        model = build_model()  # model.py
    partition = Partition(model, MODULES)  # each parameter in exactly one module, dead ones set aside
    # one FSDP2 unit per block; gradients are summed, not averaged
    shard(model, mesh, partition, strategy="full", reduce=torch.float32)
    initialise(model, partition, seed=SEED)  # the same for any number of processes

    optimizer = adamw(partition, betas=(0.9, 0.999), eps=1e-8)  # AdamW, as every published VLA recipe
    schedule = cosine(optimizer, updates=UPDATES, warmup=140)  # 2% of 7,000 updates
    checkpoints = Checkpoints(run, every=2_000, keep=2)
    done = checkpoints.resume(model, optimizer, schedule, data, partition)  # updates already made

    for update in run.updates(done, UPDATES):  # ends early on SIGTERM
        partition.enter_phase(update, optimizer, schedule)  # applies the declared learning rates
        batches = data.next_update(ACCUMULATION)
        valid = global_sum(sum(model.valid_count(batch) for batch in batches), mesh)  # padding does not count
        losses = []
        for batch in batches:
            loss = model(batch).sum() / valid
            loss.backward()
            losses.append(loss.detach())
        norms = clip_gradients(partition, 1.0)  # norm per module, before clipping
        hooks.before_step(update, model, norms)
        checkpoints.wait_for_staging()  # the asynchronous save has read the weights
        lrs = schedule.lrs()
        loss = global_sum(sum(losses), mesh)
        if run.all_finite(loss, norms):  # otherwise every rank skips, and the run counts it
            optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        due = (update + 1) % 1_000 == 0 or update + 1 == UPDATES
        held_out = {"held_out": holdout_loss(model, data, mesh)} if due else {}  # episodes that are never trained on
        run.log(update, loss=loss, norms=norms, lr=lrs, samples=GLOBAL_BATCH, **held_out)
        checkpoints.save_if_due(update + 1, model, optimizer, schedule, data, partition)

    checkpoints.finish(model, optimizer, schedule, data, partition)  # last save awaited, group closed


if __name__ == "__main__":
    run_or_explain(main)  # a mistake of the user is printed without a stack trace, exit 2
