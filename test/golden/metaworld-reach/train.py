"""metaworld-reach: the LeRobot policy act on reach; 2 CPU processes, DDP.

Written by `vla build` 0.1.0 from pipeline.ts (plan dd67b1b2). Change pipeline.ts and build again; hooks.py is yours.
"""

import torch

import hooks
from model import POLICY, build_model
from preflight import preflight
from vla_runtime.checkpoints import Checkpoints
from vla_runtime.data import Dataset, holdout_loss
from vla_runtime.errors import run_or_explain
from vla_runtime.mesh import device_mesh, global_sum
from vla_runtime.optim import adamw, clip_gradients, cosine
from vla_runtime.partition import Module, Partition
from vla_runtime.policies.samples import policy_samples
from vla_runtime.policies.training import prepare
from vla_runtime.run import start_run
from vla_runtime.sharding import shard

UPDATES = 2_400
GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = 64, 32, 1  # 32 samples x 2 processes x 1
SEED = 7

MODULES = [
    Module(
        "vision",
        parameters=["model.backbone.*"],
        blocks=["model.backbone.layer*.*"],
        lr=3e-4,
        weight_decay=1e-4,
        dtype="fp32",  # On CPUs bf16 saves no time
    ),
    Module("projector", parameters=["model.encoder_img_feat_input_proj.*"], lr=3e-4, weight_decay=1e-4, dtype="fp32"),
    Module(
        "vae",
        parameters=["model.vae_encoder.*", "model.vae_encoder_*"],
        blocks=["model.vae_encoder.layers.*"],
        lr=3e-4,
        weight_decay=1e-4,
        dtype="fp32",
    ),
    Module(
        "encoder",
        parameters=["model.encoder.*", "model.encoder_latent_input_proj.*", "model.encoder_1d_feature_pos_embed.*"],
        blocks=["model.encoder.layers.*"],
        lr=3e-4,
        weight_decay=1e-4,
        dtype="fp32",
    ),
    Module(
        "decoder",
        parameters=["model.decoder.*", "model.decoder_pos_embed.*"],
        blocks=["model.decoder.layers.*"],
        lr=3e-4,
        weight_decay=1e-4,
        dtype="fp32",
    ),
    Module(
        "heads",
        parameters=["model.encoder_robot_state_input_proj.*", "model.action_head.*"],
        lr=3e-4,
        weight_decay=1e-4,
        dtype="fp32",
    ),
]


def main() -> None:
    # lock on the directory, process group, device, a log per rank
    run = start_run("runs/metaworld-reach", plan="plan.json", seed=SEED, world=2, skip_non_finite=10)
    mesh = device_mesh(shard=2)
    preflight(run)  # before anything is allocated
    data = policy_samples(
        [
            Dataset(
                "reach",
                root="../../data/reach",
                cameras={"image": "observation.image"},
                state="observation.state",
                action="action",
                holdout=[0, 1, 2, 3],
            )
        ],
        policy=POLICY,
        run=run,
        mesh=mesh,
        constant="pass",
        global_batch=GLOBAL_BATCH,
        micro_batch=MICRO_BATCH,
        seed=SEED,
    )

    torch.manual_seed(SEED)  # every process draws the same initial weights
    model = build_model()  # model.py
    prepare(model, POLICY)  # model(batch): sums of LeRobot's loss terms
    partition = Partition(model, MODULES)  # each parameter in exactly one module, dead ones set aside
    # a whole copy on every process; gradients are summed, not averaged
    shard(model, mesh, partition, strategy="ddp", reduce=torch.float32)

    optimizer = adamw(partition, betas=(0.9, 0.999), eps=1e-8)  # AdamW, as every published VLA recipe
    schedule = cosine(optimizer, updates=UPDATES, warmup=96)  # 4% of 2,400 updates
    checkpoints = Checkpoints(run, every=800, keep=2)
    done = checkpoints.resume(model, optimizer, schedule, data, partition)  # updates already made

    for update in run.updates(done, UPDATES):  # ends early on SIGTERM
        partition.enter_phase(update, optimizer, schedule)  # applies the declared learning rates
        batches = data.next_update(ACCUMULATION)
        # per term of the loss; padding does not count
        valid = global_sum(sum(model.valid_count(batch) for batch in batches), mesh)
        losses = []
        for batch in batches:
            loss = (model(batch) / valid).sum()
            loss.backward()
            losses.append(loss.detach())
        norms = clip_gradients(partition, 10.0)  # norm per module, before clipping
        hooks.before_step(update, model, norms)
        checkpoints.wait_for_staging()  # the asynchronous save has read the weights
        lrs = schedule.lrs()
        loss = global_sum(sum(losses), mesh)
        if run.all_finite(loss, norms):  # otherwise every rank skips, and the run counts it
            optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        due = (update + 1) % 400 == 0 or update + 1 == UPDATES
        held_out = {"held_out": holdout_loss(model, data, mesh)} if due else {}  # episodes that are never trained on
        run.log(update, loss=loss, norms=norms, lr=lrs, samples=GLOBAL_BATCH, **held_out)
        checkpoints.save_if_due(update + 1, model, optimizer, schedule, data, partition)

    checkpoints.finish(model, optimizer, schedule, data, partition)  # last save awaited, group closed


if __name__ == "__main__":
    run_or_explain(main)  # a mistake of the user is printed without a stack trace, exit 2
