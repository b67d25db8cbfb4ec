"""openvla-lora: OpenVLA (action tokens) on kitchen; 4 x A100-SXM-80GB, DDP.

Written by `vla build` 0.1.0 from pipeline.ts (plan c2952b3b). Change pipeline.ts and build again; hooks.py is yours.
"""

import torch

import hooks
from model import CONFIG, build_model
from preflight import preflight
from vla_runtime.augment import Augmentation
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.data import Dataset, holdout_loss, lerobot_samples
from vla_runtime.errors import run_or_explain
from vla_runtime.lora import adapt
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, cosine
from vla_runtime.partition import Lora, Module, Partition
from vla_runtime.recompute import add_recompute
from vla_runtime.run import start_run
from vla_runtime.sharding import shard
from vla_runtime.tracking import WandB
from vla_runtime.weights import WeightAudit

UPDATES = 20_000
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 64, 8, 2  # 8 samples x 4 processes x 2
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
        lr=5e-4,
        weight_decay=0.01,  # openvla/openvla vla-scripts/finetune.py, with peft 0.11.1
        dtype="bf16",
        storage="bf16",  # The base never trains (the adapters have their own masters): kept as it is published
        lora=Lora(rank=32, alpha=16.0),  # alpha: min(rank, 16), as OpenVLA's finetune.py
    ),
    Module(
        "projector",
        parameters=["projector.*"],
        lr=5e-4,
        weight_decay=0.01,
        dtype="bf16",
        storage="bf16",
        lora=Lora(rank=32, alpha=16.0),
    ),
    Module(
        "language",
        parameters=["language_model.*"],
        blocks=["language_model.model.layers.*"],
        lr=5e-4,
        weight_decay=0.01,
        dtype="bf16",
        storage="bf16",
        recompute="full",
        lora=Lora(rank=32, alpha=16.0),
    ),
]


def main() -> None:
    # lock on the directory, process group, device, a log per rank
    run = start_run(
        "runs/openvla-lora", plan="plan.json", seed=SEED, world=4, track=[WandB("kitchen")], skip_non_finite=10
    )
    mesh = device_mesh(shard=4)
    preflight(run)  # before anything is allocated
    data = lerobot_samples(
        [
            Dataset(
                "kitchen",
                root="../../data/kitchen",
                cameras={"primary": "observation.images.front"},
                state=None,
                action="action",
                holdout=range(380, 400),
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
        augmentation=Augmentation(crop=0.9, brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05),
        workers=4,
    )

    with torch.device("meta"):
        model = build_model()  # model.py
    partition = Partition(model, MODULES)  # each parameter in exactly one module, dead ones set aside
    # from the headers: every key accounted for, or an error
    weights = WeightAudit("openvla/openvla-7b", "31f090d", model)
    adapters = adapt(model, partition, seed=SEED)  # LoRA, before sharding; the base stays frozen
    add_recompute(model, partition)  # blocks run again in the backward instead of keeping activations
    # a whole copy on every process; gradients are summed, not averaged
    shard(model, mesh, partition, strategy="ddp", reduce=torch.float32)
    weights.load(model)  # shard by shard; buffers that are not saved are rebuilt
    adapters.initialise()

    optimizer = adamw(partition, betas=(0.9, 0.999), eps=1e-8)  # AdamW, as every published VLA recipe
    schedule = cosine(optimizer, updates=UPDATES, warmup=600)  # 3% of 20,000 updates
    checkpoints = Checkpoints(run, every=1_000, keep=3)
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
