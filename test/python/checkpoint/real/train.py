"""real: a small composed VLA on a LeRobot dataset, as `vla build` writes it; the test varies nothing but what is in its data folder."""

import hooks  # pyright: ignore[reportMissingImports] - of the project that this one is laid over
import torch
from model import CONFIG, build_model
from ready import preflight
from settings import SETTINGS  # pyright: ignore[reportMissingImports] - likewise
from vla_runtime.augment import Augmentation
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.data import Dataset, holdout_loss, lerobot_samples
from vla_runtime.errors import run_or_explain
from vla_runtime.lora import adapt
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, cosine
from vla_runtime.partition import Frozen, LastLayers, Lora, Module, Partition
from vla_runtime.recompute import add_recompute
from vla_runtime.run import start_run
from vla_runtime.sharding import shard
from vla_runtime.tracking import TensorBoard
from vla_runtime.weights import initialise

UPDATES = 5
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 8, 2, 2  # 2 samples x 2 processes x 2
SEED = 7

MODULES = [
    Module(
        "vision",
        parameters=["vision_backbone.*"],
        blocks=["vision_backbone.featurizer.blocks.*"],
        lr=1e-3,
        recompute="full",
        freeze=[Frozen(until=2), LastLayers(2, rewarm=2)],
    ),
    Module("projector", parameters=["projector.*", "state_projector.*"], lr=1e-3, weight_decay=0.01),
    Module(
        "language",
        parameters=["language_model.*"],
        blocks=["language_model.model.layers.*"],
        lr=1e-3,
        dtype="bf16",
        lora=Lora(rank=2, alpha=4.0, dropout=0.2),
    ),
    Module("action", parameters=["action_head.*"], lr=1e-3, weight_decay=0.01),
]


def main() -> None:
    run = start_run("runs/kill-test", plan="plan.json", seed=SEED, world=2, track=[TensorBoard()], skip_non_finite=10)
    mesh = device_mesh(shard=2)
    preflight(run)
    data = lerobot_samples(
        [
            Dataset(
                "toy",
                root="dataset",
                cameras={"front": "observation.image"},
                state="observation.state",
                action="action",
                holdout=[1],
            )
        ],
        config=CONFIG,
        run=run,
        mesh=mesh,
        normalize_state="meanStd",
        normalize_action="minMax",
        constant="refuse",
        action_mask=None,
        clip=False,
        global_batch=GLOBAL_BATCH,
        micro_batch=MICRO_BATCH,
        seed=SEED,
        workers=SETTINGS.workers,
        augmentation=Augmentation(crop=0.9, brightness=0.2),
    )

    with torch.device("meta"):
        model = build_model()
    partition = Partition(model, MODULES)
    adapters = adapt(model, partition, seed=SEED)
    add_recompute(model, partition)
    shard(model, mesh, partition, strategy="full", reduce=torch.float32)
    initialise(model, partition, seed=SEED)
    adapters.initialise()

    optimizer = adamw(partition, betas=(0.9, 0.999), eps=1e-8)
    schedule = cosine(optimizer, updates=UPDATES, warmup=1)
    checkpoints = Checkpoints(run, every=2, keep=2)
    done = checkpoints.resume(model, optimizer, schedule, data, partition)

    for update in run.updates(done, UPDATES):
        partition.enter_phase(update, optimizer, schedule)
        batches = data.next_update(ACCUMULATION)
        valid = global_sum(sum(model.valid_count(batch) for batch in batches), mesh)
        losses = []
        for batch in batches:
            loss = model(batch).sum() / valid
            loss.backward()
            losses.append(loss.detach())
        norms = clip_gradients(partition, 1.0)
        hooks.before_step(update, model, norms)
        checkpoints.wait_for_staging()
        lrs = schedule.lrs()
        loss = global_sum(sum(losses), mesh)
        if run.all_finite(loss, norms):
            optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        due = (update + 1) % 2 == 0 or update + 1 == UPDATES
        held_out = {"held_out": holdout_loss(model, data, mesh)} if due else {}
        run.log(update, loss=loss, norms=norms, lr=lrs, samples=GLOBAL_BATCH, **held_out)
        checkpoints.save_if_due(update + 1, model, optimizer, schedule, data, partition)

    checkpoints.finish(model, optimizer, schedule, data, partition)


if __name__ == "__main__":
    run_or_explain(main)
