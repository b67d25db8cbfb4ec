"""Writes `params` directories as orbax does: OCDBT or plain folders, any chunks, any dtype."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts


def write_params(
    directory: Path,
    leaves: Mapping[str, np.ndarray],
    *,
    ocdbt: bool = True,
    driver: str = "zarr",
    chunk: Callable[[tuple[int, ...]], tuple[int, ...]] = lambda shape: shape,
) -> None:
    """Leaves by their name without `params` and `value`; each gets one chunk unless `chunk` says otherwise."""
    directory.mkdir(parents=True)
    base = f"file://{directory}/"
    for name, values in leaves.items():
        path = f"params.{name.replace('/', '.')}.value/"
        kvstore: Any = {"driver": "ocdbt", "base": base, "path": path} if ocdbt else f"{base}{path}"
        grid = list(chunk(values.shape))
        if driver == "zarr":
            metadata: dict[str, Any] = {"chunks": grid, "compressor": {"id": "zstd", "level": 1}}
        else:
            metadata = {
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}},
                "codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {"name": "zstd", "configuration": {"level": 1}},
                ],
            }
        spec = {
            "driver": driver,
            "kvstore": kvstore,
            "metadata": metadata,
            "store_data_equal_to_fill_value": True,
            "create": True,
        }
        store = ts.open(spec, dtype=ts.dtype(values.dtype.name), shape=values.shape).result()
        store.write(values).result()
