"""Activation recompute: the forward of a block runs a second time during the backward instead of keeping its activations."""

from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper

from .partition import Partition


def add_recompute(model: nn.Module, partition: Partition) -> None:
    """Wraps each block of every module declared with `recompute="full"`. Call it before `shard`.

    The wrapper stands inside the FSDP2 unit, so that the unit's parameters are gathered once for both forwards. The random state
    is kept, so that dropout draws the same mask twice; noise for flow matching is an input of the model and never drawn inside.
    Keys of the state dict do not change, and `Partition` speaks of parameters without the wrapper's name.

    A module without blocks is recomputed as a whole. A block that runs inside the forward of another (its attribute `runs_inside`) is
    recomputed with that one, and not a third time by itself.
    """
    chosen: dict[str, nn.Module] = {}
    for module in partition.modules.values():
        if module.recompute == "none":
            continue
        names = [name for blocks in partition.blocks(module.name) for name in blocks] or partition.roots(module.name)
        chosen |= {name: model.get_submodule(name) for name in names}
    blocks = set(chosen.values())
    for name, block in chosen.items():
        if blocks.intersection(getattr(block, "runs_inside", ())):
            continue
        parent, _, child = name.rpartition(".")
        wrapped = checkpoint_wrapper(block, checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=True)
        setattr(model.get_submodule(parent), child, wrapped)
