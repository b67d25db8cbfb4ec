"""safetensors files tensor by tensor, so that memory never holds more than one of them.

The library's writer takes all tensors at once, and its reader maps the file, whose pages then count as the process's own. Format:
https://huggingface.co/docs/safetensors (8 bytes little-endian length, JSON header, data).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor
from vla_runtime.errors import UserError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
PIECE = 64 * 2**20
"""Bytes that are copied at a time."""


@dataclass(frozen=True)
class Entry:
    """What a header says of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    """Offset of the first byte in the file."""

    @property
    def bytes(self) -> int:
        """Size of the data."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


class TensorFile:
    """A safetensors file, opened by its header alone.

    Raises:
        UserError: the file is not there, is no safetensors file, or is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise UserError(f"{path} is not there.")
        size = path.stat().st_size
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if not 0 < length <= size - 8:
                    raise ValueError(f"a header of {length} bytes in a file of {size}")
                header = json.loads(file.read(length))
            self.metadata: dict[str, str] = header.pop("__metadata__", {})
            self.entries = {
                name: Entry(DTYPES[told["dtype"]], tuple(told["shape"]), 8 + length + told["data_offsets"][0])
                for name, told in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0])
            }
        except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is no safetensors file ({error}). Write or fetch it again.") from error
        end = max((entry.begin + entry.bytes for entry in self.entries.values()), default=0)
        if end > size:
            raise UserError(
                f"{path} is cut off: its header tells of {end:,} bytes, {size:,} are there. Fetch it again."
            )

    def read(self, name: str) -> Tensor:
        """A tensor, in memory of its own."""
        entry = self.entries[name]
        data = bytearray(entry.bytes)
        with self.path.open("rb", buffering=0) as file:
            file.seek(entry.begin)
            view = memoryview(data)
            while view:
                count = file.readinto(view)
                if not count:
                    raise UserError(f"{self.path} is cut off within {name}. Fetch it again.")
                view = view[count:]
        return torch.frombuffer(data, dtype=entry.dtype).reshape(entry.shape) if data else torch.empty(entry.shape)


class TensorWriter:
    """Writes a safetensors file whose names, dtypes and shapes are known before its tensors are.

    Tensors are laid out by dtype, widest first (as the library does, so that each is aligned), then by name: `lm_head` before
    `model`, which is what LeRobot's pi0 and pi05 need, whose loader copies the one over the other where it comes later.
    """

    def __init__(
        self, path: Path, tensors: Mapping[str, tuple[torch.dtype, tuple[int, ...]]], metadata: Mapping[str, str]
    ) -> None:
        self.path = path
        header: dict[str, object] = {"__metadata__": {"format": "pt", **metadata}}
        self._places: dict[str, Entry] = {}
        offset = 0
        for name in sorted(tensors, key=lambda name: (-tensors[name][0].itemsize, name)):
            dtype, shape = tensors[name]
            entry = Entry(dtype, shape, offset)
            header[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [offset, offset + entry.bytes]}
            self._places[name] = entry
            offset += entry.bytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._start = 8 + len(text)
        self._left = set(tensors)
        self._file = path.open("wb", buffering=0)
        self._file.write(len(text).to_bytes(8, "little") + text)
        self._file.truncate(self._start + offset)

    def write(self, name: str, tensor: Tensor) -> None:
        """Puts a tensor into its place, cast to the dtype that the header tells."""
        entry = self._take(name)
        if tuple(tensor.shape) != entry.shape:
            raise RuntimeError(f"{name} was to be {entry.shape}, not {tuple(tensor.shape)}")
        self._file.seek(self._start + entry.begin)
        flat = tensor.contiguous().reshape(-1)
        step = PIECE // max(tensor.element_size(), entry.dtype.itemsize)
        for piece in flat.split(step):
            view = memoryview(piece.to(entry.dtype).view(torch.uint8).numpy()).cast("B")
            while view:
                view = view[self._file.write(view) :]

    def zeros(self, name: str) -> None:
        """Leaves a tensor zero, which the file is where nothing was written."""
        self._take(name)

    def _take(self, name: str) -> Entry:
        if name not in self._left:
            raise RuntimeError(f"{name} is written twice, or was not announced")
        self._left.discard(name)
        return self._places[name]

    def __enter__(self) -> "TensorWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None and self._left:
            raise RuntimeError(f"tensors without a value: {sorted(self._left)[:5]}")


def differences(
    wanted: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]], limit: int = 10
) -> list[str]:
    """What is missing, what is there besides, and what has another shape, each as a line; empty where the two agree."""
    lines: list[str] = []

    def tell(title: str, names: Iterable[str]) -> None:
        names = list(names)
        if names:
            lines.append(f"{title} ({len(names)}):")
            lines.extend(f"  {name}" for name in names[:limit])
            if len(names) > limit:
                lines.append(f"  and {len(names) - limit} more")

    tell("missing", (name for name in wanted if name not in given))
    tell("not known", (name for name in given if name not in wanted))
    tell(
        "another shape",
        (
            f"{name}: {list(given[name])} instead of {list(shape)}"
            for name, shape in wanted.items()
            if name in given and given[name] != shape
        ),
    )
    return lines
