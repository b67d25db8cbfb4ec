"""Yours: `vla build` wrote this file once and never touches it again. train.py calls what is in it, on every rank."""

import torch


def before_step(update: int, model: torch.nn.Module, norms: dict[str, torch.Tensor]) -> None:
    """Called after the gradients are summed and clipped, before the optimizer moves.

    Args:
        update: its index, from 0.
        model: the sharded model, gradients in place.
        norms: gradient norm of each module before clipping; scalars on the device (reading one waits for the device).
    """
