"""Reads the `params` of a JAX checkpoint with tensorstore, without JAX and without orbax."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from vla_runtime.errors import UserError

from .keys import Shape

INSTALL = "Reading a JAX checkpoint needs tensorstore (131 MB, no JAX). Install it into the project's environment: {python} -m pip install {pin}"


class OrbaxParams:
    """Leaves of a `params` directory, as orbax writes them: OCDBT or plain folders, zarr or zarr3, fp32 or bf16.

    Attributes:
        leaves: name (`PaliGemma/img/embedding/kernel`) -> shape; a trailing `value`, which nnx adds, is left out.
        dtypes: the dtypes of the leaves.
        bytes: size of all leaves in memory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ts = tensorstore()
        # One chunk at a time and no cache: decoding several whole-array chunks at once would hold the checkpoint twice.
        self._context = self._ts.Context({
            "cache_pool": {"total_bytes_limit": 0},
            "data_copy_concurrency": {"limit": 1},
            "file_io_concurrency": {"limit": 1},
        })  # fmt: skip
        self._base = f"file://{directory.resolve()}/"
        self._ocdbt = (directory / "manifest.ocdbt").is_file()
        if not self._ocdbt and any(directory.glob("ocdbt.process_*")):
            raise UserError(
                f"{directory} is cut off: it has ocdbt.process_* folders and no manifest.ocdbt, which orbax writes last. Copy the "
                "checkpoint again, whole."
            )
        arrays = self._arrays()
        if not arrays:
            raise UserError(f"{directory} holds no arrays: it is no orbax checkpoint, or its copy did not finish.")
        self._paths = {}
        for path in arrays:
            parts = [part for part in path.rstrip("/").replace("/", ".").split(".") if part]
            parts = parts[1:] if parts[0] == "params" else parts
            self._paths["/".join(parts[:-1] if parts[-1] == "value" else parts)] = path
        self._complete()
        self._stores = {name: self._open(name) for name in sorted(self._paths)}
        self.leaves: dict[str, Shape] = {name: tuple(store.shape) for name, store in self._stores.items()}
        self.dtypes = {store.dtype.name for store in self._stores.values()}
        self.bytes = sum(math.prod(store.shape) * store.dtype.numpy_dtype.itemsize for store in self._stores.values())

    def layers(self, name: str) -> Iterator[tuple[int, Tensor]]:
        """A stacked leaf, layer by layer, in order; each chunk is read once."""
        store = self._stores[name]
        step = store.chunk_layout.read_chunk.shape[0] if store.chunk_layout.read_chunk.shape else 1
        for begin in range(0, store.shape[0], step):
            block = self._read(name, store[begin : min(begin + step, store.shape[0])])
            yield from ((begin + i, layer) for i, layer in enumerate(block))
            del block  # before the next one is read

    def whole(self, name: str) -> Tensor:
        """A leaf."""
        return self._read(name, self._stores[name])

    def _read(self, name: str, view: Any) -> Tensor:
        try:
            array: np.ndarray = view.read().result()
        except (ValueError, OSError, RuntimeError) as error:
            raise self._cut_off(name, error) from error
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if array.dtype != np.float32:
            raise UserError(f"{self.directory}: {name} is {array.dtype}; openpi writes float32 or bfloat16.")
        return torch.from_numpy(array)

    def _cut_off(self, name: str, error: Exception) -> UserError:
        reason = str(error).splitlines()[0][:300]
        return UserError(
            f"{self.directory} is cut off or damaged at {name}: {reason}\nCopy the checkpoint again, whole; nothing of it can be used."
        )

    def _open(self, name: str) -> Any:
        path = self._paths[name]
        kvstore: Any = {"driver": "ocdbt", "base": self._base, "path": path} if self._ocdbt else f"{self._base}{path}"
        failure: Exception | None = None
        for driver in ("zarr", "zarr3"):
            # A chunk that is not there would be read as zeros in silence.
            spec = {"driver": driver, "kvstore": kvstore, "fill_missing_data_reads": False}
            try:
                return self._ts.open(spec, open=True, read=True, context=self._context).result()
            except (ValueError, OSError, RuntimeError) as error:
                failure = failure or error
        assert failure is not None
        raise self._cut_off(name, failure) from failure

    def _arrays(self) -> list[str]:
        """Paths of the arrays within the store, with a trailing slash."""
        if not self._ocdbt:
            found = {file.parent for name in (".zarray", "zarr.json") for file in self.directory.rglob(name)}
            return sorted(f"{folder.relative_to(self.directory)}/" for folder in found)
        try:
            store = self._ts.KvStore.open({"driver": "ocdbt", "base": self._base}, context=self._context).result()
            keys = [key.decode() for key in store.list().result()]
        except (ValueError, OSError, RuntimeError) as error:
            raise self._cut_off("its list of arrays", error) from error
        return sorted(
            key.removesuffix(name) for name in (".zarray", "zarr.json") for key in keys if key.endswith(f"/{name}")
        )

    def _complete(self) -> None:
        """Raises UserError where orbax's own list of leaves has one that the store lacks."""
        file = self.directory / "_METADATA"
        if not file.is_file():
            return  # checkpoints of older orbax have none
        try:
            tree = json.loads(file.read_text(encoding="utf-8"))["tree_metadata"]
            told = ["/".join(str(step["key"]) for step in entry["key_metadata"]) for entry in tree.values()]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file} is cut off or damaged ({error}). Copy the checkpoint again, whole.") from error
        lost = [name for name in (_bare(leaf) for leaf in told) if name not in self._paths]
        if lost:
            some = ", ".join(lost[:5])
            raise UserError(
                f"{self.directory} is cut off: its _METADATA lists {len(told)} leaves, and {len(lost)} of them are not in the store "
                f"({some}). Copy the checkpoint again, whole."
            )


def _bare(leaf: str) -> str:
    return leaf.removeprefix("params/").removesuffix("/value")


def tensorstore() -> Any:
    """The library.

    Raises:
        UserError: it is not installed.
    """
    try:
        import tensorstore as library
    except ImportError as error:
        import sys

        requirements = Path(__file__).parent.parent / "requirements.in"
        pin = next(line for line in requirements.read_text().splitlines() if line.startswith("tensorstore"))
        raise UserError(INSTALL.format(python=sys.executable, pin=pin)) from error
    return library
