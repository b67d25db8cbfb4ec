"""kill-test: a toy policy on two CPU processes. Reads as a generated train.py; what tests vary stands in settings.json."""

import hooks
import torch
from model import adapted, build_model, modules
from ready import preflight
from samples import Samples
from settings import SETTINGS
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.errors import run_or_explain
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, cosine
from vla_runtime.partition import Partition
from vla_runtime.run import start_run
from vla_runtime.sharding import shard

UPDATES = SETTINGS.updates
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 12, 12 // SETTINGS.world, 1
SEED = 7


def main() -> None:
    run = start_run(
        "runs/kill-test",
        plan="plan.json",
        seed=SEED,
        world=SETTINGS.world,
        skip_non_finite=SETTINGS.skip_non_finite,
        grace=SETTINGS.grace,
    )
    mesh = device_mesh(shard=SETTINGS.world)
    preflight(run)
    data = Samples(mesh, global_batch=GLOBAL_BATCH, micro_batch=MICRO_BATCH, seed=SEED)

    torch.manual_seed(SEED)
    model = build_model()
    partition = Partition(model, modules())
    adapters = adapted(model, partition)
    shard(model, mesh, partition, strategy=SETTINGS.strategy, reduce=torch.float64)
    if adapters is not None:
        adapters.initialise()

    optimizer = adamw(partition)
    schedule = cosine(optimizer, updates=UPDATES, warmup=SETTINGS.warmup)
    checkpoints = Checkpoints(run, every=SETTINGS.every, keep=SETTINGS.keep)
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
        run.log(update, loss=loss, norms=norms, lr=lrs, samples=GLOBAL_BATCH)
        checkpoints.save_if_due(update + 1, model, optimizer, schedule, data, partition)

    checkpoints.finish(model, optimizer, schedule, data, partition)


if __name__ == "__main__":
    run_or_explain(main)
