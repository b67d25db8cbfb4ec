"""The streaming reader and writer against the library."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from vla_convert.safetensors_io import TensorFile, TensorWriter
from vla_runtime.errors import UserError

TENSORS = {
    "b.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "a.weight": torch.randn(3, 1).bfloat16(),
    "c": torch.tensor(2.5),
}


def test_the_library_reads_what_was_written(tmp_path: Path) -> None:
    shapes = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in TENSORS.items()}
    with TensorWriter(tmp_path / "x.safetensors", {**shapes, "none": (torch.float32, (2, 2))}, {"k": "v"}) as writer:
        for name in reversed(list(TENSORS)):
            writer.write(name, TENSORS[name])
        writer.zeros("none")
    read = load_file(tmp_path / "x.safetensors")
    assert torch.equal(read.pop("none"), torch.zeros(2, 2))
    assert set(read) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor)
    assert TensorFile(tmp_path / "x.safetensors").metadata == {"format": "pt", "k": "v"}


def test_it_casts_and_takes_views(tmp_path: Path) -> None:
    value = torch.randn(4, 5)
    with TensorWriter(tmp_path / "x.safetensors", {"x": (torch.bfloat16, (5, 4))}, {}) as writer:
        writer.write("x", value.T)
    assert torch.equal(load_file(tmp_path / "x.safetensors")["x"], value.T.bfloat16())


def test_lm_head_comes_before_the_embedding(tmp_path: Path) -> None:
    """LeRobot's loader copies the one over the other when it comes to it."""
    names = ["model.p.model.language_model.embed_tokens.weight", "model.p.lm_head.weight"]
    with TensorWriter(tmp_path / "x.safetensors", dict.fromkeys(names, (torch.float32, (1,))), {}) as writer:
        for name in names:
            writer.zeros(name)
    assert (
        list(load_file(tmp_path / "x.safetensors"))
        == names[::-1]
        == list(TensorFile(tmp_path / "x.safetensors").entries)
    )


def test_nothing_is_forgotten_or_written_twice(tmp_path: Path) -> None:
    shapes = {"a": (torch.float32, (1,)), "b": (torch.float32, (1,))}
    with (
        pytest.raises(RuntimeError, match=r"without a value: \['b'\]"),
        TensorWriter(tmp_path / "x", shapes, {}) as writer,
    ):
        writer.zeros("a")
    with pytest.raises(RuntimeError, match="a is written twice"), TensorWriter(tmp_path / "x", shapes, {}) as writer:
        writer.zeros("a")
        writer.zeros("a")
    with pytest.raises(RuntimeError, match=r"was to be \(1,\)"), TensorWriter(tmp_path / "x", shapes, {}) as writer:
        writer.write("a", torch.zeros(2))


def test_it_reads_what_the_library_writes(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "x.safetensors")
    file = TensorFile(tmp_path / "x.safetensors")
    assert set(file.entries) == set(TENSORS)
    assert all(torch.equal(file.read(name), tensor) for name, tensor in TENSORS.items())


def test_a_cut_off_file_is_told_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file(TENSORS, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(
        UserError, match=rf"is cut off: its header tells of {len(whole)} bytes, {len(whole) - 1} are there"
    ):
        TensorFile(path)
    for broken in (b"", whole[:20], b"\xff" * 64):
        path.write_bytes(broken)
        with pytest.raises(UserError, match="is no safetensors file"):
            TensorFile(path)
    with pytest.raises(UserError, match="is not there"):
        TensorFile(tmp_path / "y.safetensors")
