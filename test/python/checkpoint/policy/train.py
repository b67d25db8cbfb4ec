"""policy: LeRobot's ACT on a LeRobot dataset, as `vla build` writes it, with what is random and what changes over the run."""

import hooks  # pyright: ignore[reportMissingImports] - of the project that this one is laid over
import torch
from model import POLICY, build_model  # pyright: ignore[reportAttributeAccessIssue] - of this project
from ready import preflight  # pyright: ignore[reportMissingImports] - of the project that this one is laid over
from vla_runtime.augment import Augmentation
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.data import Dataset, holdout_loss
from vla_runtime.errors import run_or_explain
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, cosine
from vla_runtime.partition import AllTrain, Frozen, LastLayers, Module, Partition
from vla_runtime.policies.samples import policy_samples
from vla_runtime.policies.training import prepare
from vla_runtime.recompute import add_recompute
from vla_runtime.run import start_run
from vla_runtime.sharding import shard

UPDATES = 6
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 8, 2, 2  # 2 samples x 2 processes x 2
SEED = 7

MODULES = [
    Module(
        "vision",
        parameters=["model.backbone.*"],
        blocks=["model.backbone.layer*.*"],
        lr=1e-3,
        recompute="full",
        freeze=[Frozen(until=1), LastLayers(1, until=3), AllTrain(rewarm=2)],
    ),
    Module(
        "vae",
        parameters=["model.vae_encoder.*", "model.vae_encoder_*"],
        blocks=["model.vae_encoder.layers.*"],
        lr=1e-3,
        weight_decay=0.01,
    ),
    Module(
        "transformer",
        parameters=["model.encoder.*", "model.decoder.*"],
        blocks=["model.encoder.layers.*", "model.decoder.layers.*"],
        lr=1e-3,
        weight_decay=0.01,
        recompute="full",
    ),
    Module(
        "heads",
        parameters=["model.encoder_*", "model.decoder_*", "model.action_head.*"],
        lr=1e-3,
    ),
]


def main() -> None:
    run = start_run("runs/kill-test", plan="plan.json", seed=SEED, world=2, skip_non_finite=10)
    mesh = device_mesh(shard=2)
    preflight(run)
    data = policy_samples(
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
        policy=POLICY,
        run=run,
        mesh=mesh,
        constant="refuse",
        global_batch=GLOBAL_BATCH,
        micro_batch=MICRO_BATCH,
        seed=SEED,
        augmentation=Augmentation(brightness=0.2),
    )

    torch.manual_seed(SEED)
    model = build_model()
    prepare(model, POLICY)
    partition = Partition(model, MODULES)
    add_recompute(model, partition)
    shard(model, mesh, partition, strategy="full", reduce=torch.float32)

    optimizer = adamw(partition, betas=(0.9, 0.999), eps=1e-8)
    schedule = cosine(optimizer, updates=UPDATES, warmup=1)
    checkpoints = Checkpoints(run, every=2, keep=2)
    done = checkpoints.resume(model, optimizer, schedule, data, partition)

    for update in run.updates(done, UPDATES):
        partition.enter_phase(update, optimizer, schedule)
        batches = data.next_update(ACCUMULATION)
        valid = global_sum(sum(model.valid_count(batch) for batch in batches), mesh)  # pyright: ignore[reportCallIssue]
        losses = []
        for batch in batches:
            loss = (model(batch) / valid).sum()
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
