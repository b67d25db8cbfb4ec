"""own-vla: a composed VLA (vit_large_patch14_reg4_dinov2.lvd142m + vit_so400m_patch14_siglip_224, Qwen/Qwen2.5-0.5B,
flow matching) on arm_a and arm_b; 2 nodes of 8 x H100-SXM-80GB, FSDP2, gradients and optimizer sharded.

Written by `vla build` 0.1.0 from pipeline.ts (plan 84804671). Change pipeline.ts and build again; hooks.py is yours.
"""

import torch

import hooks
from model import CONFIG, build_model
from preflight import preflight
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.data import Dataset, holdout_loss, lerobot_samples
from vla_runtime.errors import run_or_explain
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, linear
from vla_runtime.partition import AllTrain, Frozen, Module, Partition
from vla_runtime.recompute import add_recompute
from vla_runtime.run import start_run
from vla_runtime.sharding import shard
from vla_runtime.tracking import TensorBoard
from vla_runtime.weights import WeightAudit, initialise

UPDATES = 50_000
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 512, 16, 2  # 16 samples x 16 processes x 2
SEED = 7

MODULES = [
    Module(
        "vision",
        parameters=["vision_backbone.*"],
        dead=[
            "vision_backbone.featurizer.blocks.23.*",
            "vision_backbone.featurizer.norm.*",
            "vision_backbone.fused_featurizer.blocks.26.*",
            "vision_backbone.fused_featurizer.norm.*",
            "vision_backbone.fused_featurizer.attn_pool.*",
        ],
        blocks=["vision_backbone.featurizer.blocks.*", "vision_backbone.fused_featurizer.blocks.*"],
        lr=2e-5,
        weight_decay=0.01,
        dtype="bf16",
        recompute="full",
        # 10% of 50,000 updates: frozen, from update 5,000 on everything trains
        freeze=[Frozen(until=5_000), AllTrain(rewarm=1_000)],
    ),
    Module("projector", parameters=["projector.*", "state_projector.*"], lr=1e-4, weight_decay=0.01, dtype="bf16"),
    Module(
        "language",
        parameters=["language_model.*"],
        blocks=["language_model.model.layers.*"],
        lr=5e-5,
        weight_decay=0.01,
        dtype="bf16",
        recompute="full",
    ),
    Module(
        "action",
        parameters=["action_head.*"],
        blocks=["action_head.blocks.*"],
        lr=1e-4,
        weight_decay=0.01,
        dtype="fp32",
    ),
]


def main() -> None:
    # lock on the directory, process group, device, a log per rank
    run = start_run("runs/own-vla", plan="plan.json", seed=SEED, world=16, track=[TensorBoard()], skip_non_finite=10)
    mesh = device_mesh(shard=16)
    preflight(run)  # before anything is allocated
    data = lerobot_samples(
        [
            Dataset(
                "arm_a",
                root="../../data/arm_a",
                cameras={"front": "observation.images.cam_high", "wrist": "observation.images.cam_right"},
                state="observation.state",
                action="action",
                weight=3.0,
                holdout=range(1_140, 1_200),
            ),
            Dataset(
                "arm_b",
                root="../../data/arm_b",
                cameras={"front": "observation.images.main", "wrist": "observation.images.hand"},
                state="observation.state",
                action="action",
                weight=1.0,
                episodes=[0, 1, 2, 3, 4, 5, 8, 13],
            ),
        ],
        config=CONFIG,
        run=run,
        mesh=mesh,
        normalize_state="quantiles",
        normalize_action="quantiles",
        constant="pass",
        action_mask=None,  # Every dimension is normalised
        clip=True,
        global_batch=GLOBAL_BATCH,
        micro_batch=MICRO_BATCH,
        seed=SEED,
        workers=6,
    )

    with torch.device("meta"):
        model = build_model()  # model.py
    partition = Partition(model, MODULES)  # each parameter in exactly one module, dead ones set aside
    # from the headers: every key accounted for, or an error
    weights = [
        WeightAudit("Qwen/Qwen2.5-0.5B", "060db6499f32faf8b98477b0a26969ef7d8b9987", model, part="language_model")
    ]
    add_recompute(model, partition)  # blocks run again in the backward instead of keeping activations
    # one FSDP2 unit per block; gradients are summed, not averaged
    shard(model, mesh, partition, strategy="gradOp", reduce=torch.float32)
    initialise(model, partition, seed=SEED, loaded=weights)  # what the weights do not hold
    for part in weights:
        part.load(model)  # shard by shard; buffers that are not saved are rebuilt

    optimizer = adamw(partition, betas=(0.9, 0.95), eps=1e-8)
    schedule = linear(optimizer, updates=UPDATES, warmup=1_500, floor=0.1)  # 3% of 50,000 updates
    checkpoints = Checkpoints(run, every=1_000, keep=3)  # 2% of 50,000 updates
    done = checkpoints.resume(model, optimizer, schedule, data, partition)  # updates already made

    for update in run.updates(done, UPDATES):  # ends early on SIGTERM
        partition.enter_phase(update, optimizer, schedule)  # freeze phases change between updates, never inside one
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
