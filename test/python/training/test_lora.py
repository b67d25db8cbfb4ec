"""Adapters: which layers, their first values, their names, merging."""

import math
from typing import Any

import pytest
import torch
import torch.distributed as dist
import toy
import twins
from pool import Pool
from torch import nn
from torch.distributed.tensor import DTensor
from vla_runtime import lora, mesh, recompute, sharding
from vla_runtime.errors import UserError
from vla_runtime.partition import Frozen, LastLayers, Lora, Module, Partition, saved_name


def _adapted(model: nn.Module | None = None, seed: int = 3, **changes: Any) -> lora.Adapters:
    model = model or toy.Toy()
    parts = Partition(model, toy.toy_modules(**changes))
    return lora.adapt(model, parts, seed=seed)


def test_without_targets_every_live_linear_is_adapted() -> None:
    adapters = _adapted(vision={"lora": Lora(rank=2, alpha=4.0)})
    names = adapters.layers["vision"]
    assert len(names) == 3 * 5 and not any("blocks.3" in name for name in names)  # the last block is dead
    assert adapters.count() == 3 * 2 * (3 * (16 + 16) + 2 * (16 + 32))
    parts = adapters.partition
    assert {name for name, _ in parts.trainable("vision")} == {
        n for n, _ in parts.named_parameters("vision") if ".lora_" in n
    }
    assert parts.trainable("action"), "peft freezes everything else; the partition must undo that"


def test_targets_are_suffixes_or_patterns_and_reach_convolutions_and_dead_layers() -> None:
    adapters = _adapted(
        vision={"lora": Lora(rank=2, alpha=4.0, targets=["patch", "fc1"])},
        language={"lora": Lora(rank=4, alpha=4.0, targets=["language_model.layers.1.*_proj"])},
    )
    assert adapters.layers["vision"] == [
        "vision_backbone.patch",
        *(f"vision_backbone.blocks.{i}.fc1" for i in range(4)),
    ]
    assert adapters.layers["language"] == [f"language_model.layers.1.{x}_proj" for x in "qkv"]
    shapes = {name: tuple(p.shape) for name, p in adapters.partition.named_parameters() if ".lora_A." in name}
    assert shapes["vision_backbone.patch.lora_A.default.weight"] == (2, 3, 4, 4)
    assert shapes["language_model.layers.1.q_proj.lora_A.default.weight"] == (4, 16)
    dead = [n for n, p in adapters.partition.named_parameters() if "blocks.3.fc1.lora_" in n and not p.requires_grad]
    assert len(dead) == 2


def test_freeze_phases_speak_of_the_adapters() -> None:
    adapters = _adapted(language={"lora": Lora(rank=2, alpha=2.0), "freeze": [Frozen(2), LastLayers(1)]})
    parts = adapters.partition
    assert not parts.trainable("language")
    parts.load_state_dict({"language": 1})
    assert {name.split(".")[2] for name, _ in parts.trainable("language")} == {"1"}
    assert all(".lora_" in name for name, _ in parts.trainable("language"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"language": {"lora": Lora(2, 2.0, targets=["q_proj", "gate_proj"])}}, ["gate_proj", "language"]),
        ({"language": {"lora": Lora(2, 2.0, targets=["norm"])}}, ["norm", "no linear"]),
        ({}, ["No module declares"]),
    ],
)
def test_wrong_targets_are_refused(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        _adapted(**changes)
    assert all(word in str(error.value) for word in words), error.value


def test_an_adapter_on_a_tied_layer_is_refused() -> None:
    model = toy.Toy()
    head = nn.Linear(toy.WIDTH, toy.VOCAB, bias=False)
    head.weight = model.language_model.embed_tokens.weight
    model.language_model.lm_head = head
    with pytest.raises(UserError, match="tied"):
        _adapted(model, language={"lora": Lora(2, 2.0)})


def test_the_output_projection_of_torchs_attention_is_no_layer_to_adapt() -> None:
    model = nn.Module()
    model.attention = nn.MultiheadAttention(8, 2)
    model.head = nn.Linear(8, 4)
    parts = Partition(model, [Module("all", parameters=["*"], lr=1e-3, lora=Lora(2, 2.0))])
    lora.adapt(model, parts, seed=0)
    adapted = {saved.partition(".lora_")[0] for saved, _ in parts.named_parameters() if ".lora_" in saved}
    assert adapted == {"head"}


def test_first_values() -> None:
    adapters = _adapted(vision={"lora": Lora(rank=8, alpha=8.0, targets=["fc1", "patch"])})
    adapters.initialise()
    values = {name: p.detach() for name, p in adapters.partition.named_parameters() if ".lora_" in name}
    assert all(bool((p == 0).all()) for name, p in values.items() if ".lora_B." in name)
    for name, value in values.items():
        if ".lora_A." in name:
            bound = 1 / math.sqrt(48 if "patch" in name else 16)
            assert 0.5 * bound < float(value.abs().max()) <= bound
    first, second = (values[f"vision_backbone.blocks.{i}.fc1.lora_A.default.weight"] for i in range(2))
    assert not torch.equal(first, second)
    again = _adapted(vision={"lora": Lora(rank=8, alpha=8.0, targets=["fc1", "patch"])})
    again.initialise()
    assert all(torch.equal(p, values[name]) for name, p in again.partition.named_parameters() if name in values)
    other = _adapted(seed=4, vision={"lora": Lora(rank=8, alpha=8.0, targets=["fc1"])})
    other.initialise()
    assert not torch.equal(
        dict(other.partition.named_parameters())["vision_backbone.blocks.0.fc1.lora_A.default.weight"], first
    )


def _sharded_values(meta: bool) -> dict[str, torch.Tensor]:
    with torch.device("meta" if meta else "cpu"):
        model = toy.Toy()
    adapters = _adapted(model, language={"lora": Lora(rank=3, alpha=1.0), "recompute": "full"})  # 3 rows on 2 processes
    recompute.add_recompute(model, adapters.partition)
    if dist.is_initialized():
        sharding.shard(model, mesh.device_mesh(shard=2, device="cpu"), adapters.partition)
    model.to_empty(device="cpu")
    adapters.initialise()
    named = ((name, p.detach()) for name, p in adapters.partition.named_parameters() if ".lora_" in name)
    return {name: p.full_tensor() if isinstance(p, DTensor) else p for name, p in named}


def test_first_values_do_not_depend_on_sharding_or_the_meta_device(pool: Pool) -> None:
    alone = _sharded_values(meta=False)
    for values in pool.run(_sharded_values, meta=True):
        assert values.keys() == alone.keys() and all(torch.equal(values[name], alone[name]) for name in alone)


def test_base_keys_stay_those_of_the_model() -> None:
    model = toy.Toy()
    keys = set(model.state_dict())
    adapters = _adapted(model, language={"lora": Lora(2, 2.0)}, vision={"lora": Lora(2, 2.0, targets=["patch"])})
    names = lora.base_names(adapters.partition)
    assert set(names) == keys
    assert names["language_model.layers.0.q_proj.bias"] == "language_model.layers.0.q_proj.base_layer.bias"
    assert names["action_head.0.weight"] == "action_head.0.weight"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_merging_gives_the_same_actions_under_the_base_keys(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = toy.Toy().double()
    changes: dict[str, Any] = {
        "language": {"lora": Lora(rank=2, alpha=6.0)},
        "vision": {"lora": Lora(rank=3, alpha=1.0, targets=["patch", "fc2"])},
    }
    keys = list(model.state_dict())
    adapters = _adapted(model, **changes)
    for name, parameter in adapters.partition.named_parameters():
        if saved_name(name) is None:
            nn.init.normal_(parameter, std=0.3)
        elif dtype == torch.bfloat16:
            parameter.data = parameter.data.to(dtype).double()
    batch = twins.samples(twins.Case(), 0, [0, 1, 2])
    adapted = model.predict(batch)
    state = {n: t if ".lora_" in n else t.to(dtype) for n, t in model.state_dict().items()}
    merged = lora.merged_state_dict(state, toy.toy_modules(**changes))
    assert list(merged) == keys and all(tensor.dtype == dtype for tensor in merged.values())
    plain = toy.Toy().double()
    plain.load_state_dict(merged)
    gap = (plain.predict(batch) - adapted).abs().max().item()
    assert gap < (1e-12 if dtype == torch.float64 else 0.05)
    assert lora.merged_state_dict(merged, toy.toy_modules()) == merged
    with pytest.raises(UserError, match="declares no `lora`"):
        lora.merged_state_dict(state, toy.toy_modules())
