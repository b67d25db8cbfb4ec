"""Building modules of other libraries so that they cost no memory on the meta device and still have their buffers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook


@contextmanager
def real_buffers() -> Iterator[None]:
    """Under `torch.device("meta")`: parameters go to meta as they are registered, buffers are made for real on the CPU.

    Buffers that are not saved (rotary frequencies, position grids) would otherwise stay on meta after the weights were loaded,
    and some constructors read values of tensors they have just made, which meta tensors do not have. Without a surrounding meta
    device this changes nothing.
    """
    if torch.get_default_device().type != "meta":
        yield
        return

    def to_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta:
            return None  # keep it as it is
        return nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)

    handle = register_module_parameter_registration_hook(cast(Any, to_meta))  # its stub says that hooks return nothing
    try:
        with torch.device("cpu"):
            yield
    finally:
        handle.remove()


def parameter_dtype(module: nn.Module) -> torch.dtype:
    """dtype of the first floating point parameter; torch's default for a module without parameters."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return torch.get_default_dtype()
