"""Reading orbax's stores: all forms of them, and none that is cut off."""

import json
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from openpi_fixtures import FIXTURES
from orbax_files import write_params
from vla_convert.orbax import OrbaxParams
from vla_runtime.errors import UserError

DRAW = np.random.default_rng(3)
LEAVES = {
    "PaliGemma/llm/layers/mlp/linear": DRAW.standard_normal((5, 4, 3)).astype(np.float32),
    "action_in_proj/bias": np.zeros(7, dtype=np.float32),
}


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"ocdbt": False},
        {"driver": "zarr3"},
        {"ocdbt": False, "driver": "zarr3"},
        {"chunk": lambda shape: (2, *shape[1:])},
        {"chunk": lambda shape: tuple(min(2, length) for length in shape)},
    ],
)
def test_every_form_is_read(form: dict[str, Any], tmp_path: Path) -> None:
    write_params(tmp_path / "params", LEAVES, **form)
    params = OrbaxParams(tmp_path / "params")
    assert params.leaves == {name: values.shape for name, values in LEAVES.items()}
    assert params.dtypes == {"float32"} and params.bytes == 4 * (60 + 7)
    for name, values in LEAVES.items():
        assert torch.equal(params.whole(name), torch.from_numpy(values))
    layers = dict(params.layers("PaliGemma/llm/layers/mlp/linear"))
    assert list(layers) == [0, 1, 2, 3, 4]
    assert all(
        torch.equal(layer, torch.from_numpy(LEAVES["PaliGemma/llm/layers/mlp/linear"][i]))
        for i, layer in layers.items()
    )


def test_bfloat16_keeps_its_bits(tmp_path: Path) -> None:
    values = DRAW.standard_normal((4, 6)).astype(ml_dtypes.bfloat16)
    write_params(tmp_path / "params", {"x": values})
    params = OrbaxParams(tmp_path / "params")
    read = params.whole("x")
    assert params.dtypes == {"bfloat16"} and read.dtype == torch.bfloat16
    assert np.array_equal(read.view(torch.int16).numpy(), values.view(np.int16))


def test_another_dtype_is_refused(tmp_path: Path) -> None:
    write_params(tmp_path / "params", {"x": np.zeros(3, dtype=np.int32)})
    with pytest.raises(UserError, match="x is int32; openpi writes float32 or bfloat16"):
        OrbaxParams(tmp_path / "params").whole("x")


@pytest.fixture
def params(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "pi0" / "7" / "params", tmp_path / "params"))


def read_all(directory: Path) -> None:
    params = OrbaxParams(directory)
    for name in params.leaves:
        params.whole(name)


def data_files(params: Path) -> list[Path]:
    return sorted(params.glob("ocdbt.process_0/d/*"), key=lambda path: path.stat().st_size)


def test_the_fixture_is_whole(params: Path) -> None:
    read_all(params)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_data_file_cut_off_in_the_middle(params: Path, share: float) -> None:
    largest = data_files(params)[-1]
    with largest.open("rb+") as file:
        file.truncate(int(largest.stat().st_size * share))
    with pytest.raises(UserError, match=r"is cut off or damaged at .*\nCopy the checkpoint again, whole"):
        read_all(params)


def test_each_file_that_is_missing_is_noticed(params: Path, tmp_path: Path) -> None:
    files = [path for path in params.rglob("*") if path.is_file() and path.parent.name == "d"]
    noticed = 0
    for file in files:
        hidden = file.rename(tmp_path / "hidden")
        try:
            read_all(params)
        except UserError as error:
            assert "cut off" in str(error)
            noticed += 1
        hidden.rename(file)
    # The per-process trees that were merged into the first one are no longer read.
    assert noticed >= 3


def test_no_manifest(params: Path) -> None:
    (params / "manifest.ocdbt").unlink()
    with pytest.raises(UserError, match=r"is cut off: it has ocdbt.process_\* folders and no manifest.ocdbt"):
        OrbaxParams(params)


def test_a_leaf_that_orbax_lists_and_the_store_lacks(params: Path) -> None:
    tree = json.loads((params / "_METADATA").read_text())
    name, entry = next(iter(tree["tree_metadata"].items()))
    entry = json.loads(json.dumps(entry).replace("encoder_norm", "another_norm"))
    tree["tree_metadata"][name.replace("encoder_norm", "another_norm")] = entry
    (params / "_METADATA").write_text(json.dumps(tree))
    with pytest.raises(
        UserError,
        match=r"_METADATA lists 51 leaves, and 1 of them are not in the store \(PaliGemma/img/Transformer/another_norm",
    ):
        OrbaxParams(params)
    (params / "_METADATA").write_text(json.dumps(tree)[:1000])
    with pytest.raises(UserError, match="_METADATA is cut off or damaged"):
        OrbaxParams(params)


def test_a_missing_chunk_is_not_read_as_zeros(tmp_path: Path) -> None:
    write_params(tmp_path / "params", LEAVES, ocdbt=False, chunk=lambda shape: (2, *shape[1:]))
    (tmp_path / "params" / "params.PaliGemma.llm.layers.mlp.linear.value" / "1.0.0").unlink()
    with pytest.raises(UserError, match="is cut off or damaged at PaliGemma/llm/layers/mlp/linear"):
        read_all(tmp_path / "params")


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no arrays"):
        OrbaxParams(tmp_path)


def test_without_tensorstore_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tensorstore", None)
    with pytest.raises(UserError, match=r"needs tensorstore .* -m pip install tensorstore==\d"):
        OrbaxParams(tmp_path)
