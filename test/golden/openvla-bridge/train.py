"""openvla-bridge: OpenVLA (action tokens) on bridge; 8 x H100-SXM-80GB, FSDP2, fully sharded.

Written by `vla build` 0.1.0 from pipeline.ts (plan eb923a39). Change pipeline.ts and build again; hooks.py is yours.
"""

import torch

import hooks
from model import CONFIG, build_model
from preflight import preflight
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.data import Dataset, lerobot_samples
from vla_runtime.errors import run_or_explain
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, cosine
from vla_runtime.partition import Frozen, LastLayers, Module, Partition
from vla_runtime.recompute import add_recompute
from vla_runtime.run import start_run
from vla_runtime.sharding import shard
from vla_runtime.tracking import TensorBoard
from vla_runtime.weights import WeightAudit

UPDATES = 50_000
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 256, 16, 2  # 16 samples x 8 processes x 2
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
        lr=2e-6,
        weight_decay=0.0,
        dtype="bf16",
        recompute="full",
        # 75% of 50,000 updates: frozen, from update 37,500 on the last 6 blocks train
        freeze=[Frozen(until=37_500), LastLayers(6)],
    ),
    Module("projector", parameters=["projector.*"], lr=1e-4, weight_decay=0.01, dtype="bf16"),
    Module(
        "language",
        parameters=["language_model.*"],
        blocks=["language_model.model.layers.*"],
        lr=2e-5,
        weight_decay=0.1,
        dtype="bf16",
        recompute="full",
    ),
]


def main() -> None:
    # lock on the directory, process group, device, a log per rank
    run = start_run(
        "runs/openvla-bridge", plan="plan.json", seed=SEED, world=8, track=[TensorBoard()], skip_non_finite=10
    )
    mesh = device_mesh(shard=8)
    preflight(run)  # before anything is allocated
    data = lerobot_samples(
        [
            Dataset(
                "bridge",
                repo="lerobot/bridge",
                revision="v3.0",
                cameras={"primary": "observation.images.image_0"},
                state=None,
                action="action",
            )
        ],
        config=CONFIG,
        run=run,
        mesh=mesh,
        normalize_state="quantiles",
        normalize_action="quantiles",  # OpenVLA: q01 and q99 to [-1, 1]
        constant="refuse",
        action_mask=[True, True, True, True, True, True, False],  # OpenVLA: the gripper is not normalised
        clip=True,  # What lies outside the quantiles is clipped to [-1, 1], as OpenVLA does
        global_batch=GLOBAL_BATCH,
        micro_batch=MICRO_BATCH,
        seed=SEED,
        workers=4,
    )

    with torch.device("meta"):
        model = build_model()  # model.py
    partition = Partition(model, MODULES)  # each parameter in exactly one module, dead ones set aside
    # from the headers: every key accounted for, or an error
    weights = WeightAudit("openvla/openvla-7b", "31f090d", model)
    add_recompute(model, partition)  # blocks run again in the backward instead of keeping activations
    # one FSDP2 unit per block; gradients are summed, not averaged
    shard(model, mesh, partition, strategy="full", reduce=torch.float32)
    weights.load(model)  # shard by shard; buffers that are not saved are rebuilt

    optimizer = adamw(partition, betas=(0.9, 0.999), eps=1e-8)
    schedule = cosine(optimizer, updates=UPDATES, warmup=1_500)  # 3% of 50,000 updates
    checkpoints = Checkpoints(run, every=1_000, keep=3)
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
        run.log(update, loss=loss, norms=norms, lr=lrs, samples=GLOBAL_BATCH)
        checkpoints.save_if_due(update + 1, model, optimizer, schedule, data, partition)

    checkpoints.finish(model, optimizer, schedule, data, partition)  # last save awaited, group closed


if __name__ == "__main__":
    run_or_explain(main)  # a mistake of the user is printed without a stack trace, exit 2
