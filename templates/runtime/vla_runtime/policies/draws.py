"""Random numbers that belong to samples: LeRobot's own loss code draws through a context that gives each row its own generator."""

import hashlib
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint

from ..errors import UserError

Row = Callable[[torch.Generator], Tensor]
_Made = tuple[int, Callable[[int], Row], torch.device]


def sample_seed(seed: int, update: int, position: int) -> int:
    """Seed of the generator of the sample at this position of an update's global batch, in [0, 2^63)."""
    digest = hashlib.sha256(f"draws/{seed}/{update}/{position}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class PerSampleDraws(TorchFunctionMode):
    """Within: every random tensor with the samples as its leading dimension is drawn row by row, each row from its sample's generator.

    The generators live on the CPU and are seeded by (seed, update, position), so that neither the number of processes nor the split
    into micro-batches nor the device changes what a sample gets. The n-th draw of a forward takes the n-th numbers of each generator.
    Dropout is left alone: it stays a matter of the rank (`Run.updates` seeds it).

    Args:
        seed: of the run.
        update: see `PolicyBatch`.
        positions: one for each row.

    Raises:
        UserError: (from within) a draw that has no row for each sample, that happens inside of a recomputed block, where it would not
            be repeated, or that is made by NumPy's or Python's own generators.
    """

    _active: ClassVar[list["PerSampleDraws"]] = []

    def __init__(self, seed: int, update: int, positions: Sequence[int]) -> None:
        super().__init__()
        self._seeds = [sample_seed(seed, update, int(position)) for position in positions]
        self._generators: list[torch.Generator] = []
        self._outside: tuple[object, bytes] | None = None

    @classmethod
    def seeded(cls, seeds: Sequence[int]) -> Self:
        """A context in which row i gets what `torch.manual_seed(seeds[i])` gives to that row alone on the CPU."""
        draws = cls(0, 0, [])
        draws._seeds = [int(seed) for seed in seeds]
        return draws

    @classmethod
    def rows(cls) -> int | None:
        """Number of samples of the innermost context; None outside of any."""
        return len(cls._active[-1]._seeds) if cls._active else None

    def __enter__(self) -> Self:
        self._generators = [torch.Generator().manual_seed(seed) for seed in self._seeds]
        self._outside = _other_generators()
        super().__enter__()
        self._active.append(self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._active.pop()
        super().__exit__(kind, error, trace)
        if error is None and _other_generators() != self._outside:
            raise UserError(
                "The policy draws random numbers from Python's or NumPy's generator, which differ between ranks. "
                "Its loss needs an entry of its own in vla_runtime/policies/losses.py."
            )

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Draws row by row where `func` draws; everything else is called as it is."""
        kwargs = dict(kwargs or {})
        if func in _REFUSED:
            raise UserError(_refusal(func, "has no row for each sample"))
        if func not in _DRAWS:
            return func(*args, **kwargs)
        if kwargs.pop("generator", None) is not None:
            raise UserError(_refusal(func, "has a generator of its own"))
        if _recomputed(sys._getframe()):
            raise UserError(
                f"{_name(func)} is drawn inside of a recomputed block, where the second forward would draw other numbers. "
                "Declare recompute: 'none' for this module."
            )
        return _DRAWS[func](self, func, args, kwargs)

    # Draws

    def _rows(
        self, func: Callable[..., Any], shape: Sequence[int], draw: Callable[[int, torch.Generator], Tensor]
    ) -> Tensor:
        """[B, ...] from one draw for each row; `draw(i, generator)` returns row i."""
        if len(shape) == 0 or shape[0] != len(self._seeds):
            raise UserError(
                _refusal(func, f"of shape {tuple(shape)} has no row for each of the {len(self._seeds)} samples")
            )
        return torch.stack([draw(i, generator) for i, generator in enumerate(self._generators)])

    def _factory(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """`rand`, `randn`."""
        size = kwargs["size"] if "size" in kwargs else args
        size = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size
        dtype = kwargs.get("dtype")
        drawn = self._rows(func, size, lambda i, g: func(tuple(size[1:]), generator=g, dtype=dtype, device="cpu"))
        return _finished(drawn, kwargs)

    def _integers(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """`randint(high, size)`, `randint(low, high, size)`."""
        values = list(args)
        size = kwargs["size"] if "size" in kwargs else values.pop()
        high = kwargs["high"] if "high" in kwargs else values.pop()
        low = kwargs["low"] if "low" in kwargs else values.pop() if values else 0
        dtype = kwargs.get("dtype") or torch.int64
        drawn = self._rows(
            func, size, lambda i, g: torch.randint(low, high, tuple(size[1:]), generator=g, dtype=dtype, device="cpu")
        )
        return _finished(drawn, kwargs)

    def _like(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """`rand_like`, `randn_like`."""
        like = args[0] if args else kwargs["input"]
        make = torch.rand if func is torch.rand_like else torch.randn
        dtype = kwargs.get("dtype") or like.dtype
        shape = tuple(like.shape[1:])
        drawn = self._rows(func, like.shape, lambda i, g: make(shape, generator=g, dtype=dtype, device="cpu"))
        return _finished(drawn, {"device": like.device, **kwargs})

    def _normal(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """`normal(mean, std)` with tensors, `normal(mean, std, size)` with numbers."""
        given = dict(zip(("mean", "std", "size"), args, strict=False)) | kwargs
        mean, std = given.get("mean", 0.0), given.get("std", 1.0)
        tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
        if tensors:
            shape, dtype, device = (
                torch.broadcast_shapes(*(t.shape for t in tensors)),
                tensors[0].dtype,
                tensors[0].device,
            )
        else:
            shape, dtype, device = given["size"], given.get("dtype"), given.get("device")
        drawn = self._rows(
            func, shape, lambda i, g: torch.randn(tuple(shape[1:]), generator=g, dtype=dtype, device="cpu")
        )
        return _finished(drawn, {**kwargs, "device": device}) * std + mean

    def _bernoulli(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """`bernoulli(probabilities)`."""
        chance = args[0] if args else kwargs["input"]
        if len(args) > 1 or "p" in kwargs:
            raise UserError(_refusal(func, "with a probability apart from its input is not provided for"))
        host = chance.detach().cpu()
        drawn = self._rows(func, chance.shape, lambda i, g: torch.bernoulli(host[i], generator=g))
        return drawn.to(chance.device)

    def _dirichlet(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """`_sample_dirichlet(concentration)`, of which torch makes Beta, and `_standard_gamma(alpha)`."""
        parameter = args[0]
        host = parameter.detach().cpu()
        drawn = self._rows(func, parameter.shape, lambda i, g: func(host[i], generator=g))
        return drawn.to(parameter.device)

    def _in_place(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """`normal_`, `uniform_`, `exponential_`, `bernoulli_` of a tensor."""
        target, parameters = args[0], args[1:]
        if any(isinstance(value, Tensor) for value in (*parameters, *kwargs.values())):
            raise UserError(_refusal(func, "with a tensor as parameter is not provided for"))

        def draw(i: int, generator: torch.Generator) -> Tensor:
            row = torch.empty(target.shape[1:], dtype=target.dtype, device="cpu")
            return func(row, *parameters, **kwargs, generator=generator)

        return target.copy_(self._rows(func, target.shape, draw))


_Draw = Callable[[PerSampleDraws, Callable[..., Any], Sequence[Any], dict[str, Any]], Tensor]
_DRAWS: dict[Callable[..., Any], _Draw] = {
    torch.rand: PerSampleDraws._factory,
    torch.randn: PerSampleDraws._factory,
    torch.randint: PerSampleDraws._integers,
    torch.rand_like: PerSampleDraws._like,
    torch.randn_like: PerSampleDraws._like,
    torch.normal: PerSampleDraws._normal,
    torch.bernoulli: PerSampleDraws._bernoulli,
    torch.Tensor.bernoulli: PerSampleDraws._bernoulli,
    torch._sample_dirichlet: PerSampleDraws._dirichlet,  # pyright: ignore[reportPrivateImportUsage]
    torch._standard_gamma: PerSampleDraws._dirichlet,  # pyright: ignore[reportPrivateImportUsage]
    torch.Tensor.normal_: PerSampleDraws._in_place,
    torch.Tensor.uniform_: PerSampleDraws._in_place,
    torch.Tensor.exponential_: PerSampleDraws._in_place,
    torch.Tensor.bernoulli_: PerSampleDraws._in_place,
}
_REFUSED: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.randint_like,
        torch.randperm,
        torch.multinomial,
        torch.poisson,
        torch.binomial,
        torch.rrelu,
        torch.Tensor.multinomial,
        torch.Tensor.random_,
        torch.Tensor.cauchy_,
        torch.Tensor.log_normal_,
        torch.Tensor.geometric_,
        functional.gumbel_softmax,
        functional.rrelu,
        functional.fractional_max_pool2d,
        functional.fractional_max_pool3d,
    }
)


def _finished(drawn: Tensor, kwargs: Mapping[str, Any]) -> Tensor:
    device = kwargs.get("device")
    drawn = drawn.to(torch.get_default_device() if device is None else device)
    return drawn.requires_grad_() if kwargs.get("requires_grad") else drawn


def _recomputed(frame: FrameType | None) -> bool:
    """Whether the call comes from within torch's activation recompute."""
    while frame is not None:
        if frame.f_code.co_filename == checkpoint.__file__:
            return True
        frame = frame.f_back
    return False


def _other_generators() -> tuple[object, bytes]:
    """State of Python's and NumPy's global generators."""
    state: Any = np.random.get_state(legacy=False)
    return random.getstate(), state["state"]["key"].tobytes() + bytes(str(state["state"]["pos"]), "ascii")


def _name(func: Callable[..., Any]) -> str:
    return f"torch.{getattr(func, '__name__', func)}"


def _refusal(func: Callable[..., Any], why: str) -> str:
    return (
        f"The policy draws {_name(func)}, which {why}: what a sample gets would depend on the rank and on the micro-batch. "
        "Its loss needs an entry of its own in vla_runtime/policies/losses.py."
    )
