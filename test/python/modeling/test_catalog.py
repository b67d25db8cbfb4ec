"""The catalog of the TypeScript side against the real classes, built on the meta device."""

import importlib.metadata
import json
import math
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from vla_runtime.lora import Lora, adapt
from vla_runtime.modeling import joint
from vla_runtime.modeling.composed import ComposedVLA, VLAConfig
from vla_runtime.modeling.vision import build_timm, build_transformers, dead_in_tower
from vla_runtime.partition import Module, Partition

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def catalog() -> dict[str, Any]:
    command = [str(ROOT / "node_modules/.bin/tsx"), str(ROOT / "test/catalog/dump.ts")]
    return json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)


def shapes(model: nn.Module, remove_duplicate: bool = True) -> dict[str, list[int]]:
    return {name: list(p.shape) for name, p in model.named_parameters(remove_duplicate=remove_duplicate)}


def linears(model: nn.Module) -> list[str]:
    return [f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)]


def matching(names: list[str], patterns: list[str]) -> set[str]:
    for pattern in patterns:
        assert any(fnmatchcase(name, pattern) for name in names), f"{pattern} matches nothing"
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def blocks(model: nn.Module, pattern: str) -> list[str]:
    names = [name for name, _ in model.named_modules()]
    return [name for name in names if name.count(".") == pattern.count(".") and fnmatchcase(name, pattern)]


def tower_config(tower: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": "timm",
        "name": tower["name"],
        "image_size": tower["imageSize"],
        "output": tower["output"],
        "layer": tower["layer"],
        "norm": "native",
        "mean": tower["mean"],
        "std": tower["std"],
        "options": {},
    }


def openvla_name(name: str) -> str:
    """The runtime's spelling of a parameter of timm."""
    return name.replace(".ls1.gamma", ".ls1.scale_factor").replace(".ls2.gamma", ".ls2.scale_factor")


def test_timm_towers_have_the_catalogs_names_and_shapes(catalog: dict[str, Any]) -> None:
    for tower in catalog["towers"]:
        where = f"{tower['name']} layer {tower['layer']}"
        config = tower_config(tower)
        with torch.device(
            "meta"
        ):  # timm itself, which is quick; the runtime's renaming of LayerScale shows in the whole models
            if tower["output"] == "map":
                model: Any = timm.create_model(tower["name"], features_only=True, out_indices=[tower["layer"]])
            else:
                model = timm.create_model(tower["name"], num_classes=0, img_size=tower["imageSize"])
        assert {openvla_name(name): shape for name, shape in shapes(model).items()} == tower["parameters"], where
        assert linears(model) == tower["linears"], where
        names = list(tower["parameters"])
        assert matching(names, tower["dead"]) == {openvla_name(n) for n in dead_in_tower(model, config)}, where
        if tower["blocks"] is None:
            assert tower["liveBlocks"] == 0, where
            continue
        dead = matching(names, tower["dead"])
        found = [
            b for b in blocks(model, tower["blocks"]) if any(n.startswith(f"{b}.") for n in names if n not in dead)
        ]
        assert len(found) == tower["liveBlocks"], where
        if tower["output"] == "map":
            assert model.feature_info.channels() == [tower["width"]], where


@pytest.mark.parametrize("name", ["convnext_atto", "resnet10t", "test_vit"])
def test_width_and_tokens_are_those_of_a_forward_pass(catalog: dict[str, Any], name: str) -> None:
    towers = [tower for tower in catalog["towers"] if tower["name"] == name]
    assert len(towers) > 1
    for tower in towers:
        model: Any = build_timm(tower_config(tower)).eval()
        image = torch.zeros(1, 3, tower["imageSize"], tower["imageSize"])
        with torch.no_grad():
            if tower["output"] == "map":
                out = model(image)[0].flatten(2).transpose(1, 2)
            else:
                out = model.forward_intermediates(image, indices=1, output_fmt="NLC", intermediates_only=True)[0]
        assert list(out.shape[1:]) == [tower["tokens"], tower["width"]], tower


def test_pixel_statistics_are_those_of_the_pretrained_configs(catalog: dict[str, Any]) -> None:
    for entry in catalog["pixels"]:
        config = timm.models.get_pretrained_cfg(entry["name"])
        assert config is not None, entry["name"]
        assert (list(config.mean), list(config.std)) == (entry["mean"], entry["std"]), entry["name"]


def test_causal_language_models_have_the_catalogs_names_and_shapes(catalog: dict[str, Any]) -> None:
    for entry in catalog["languages"]:
        values = dict(entry["config"])
        config = AutoConfig.for_model(values.pop("model_type"), **values)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        if not entry["head"]:
            model.lm_head = nn.Identity()
        assert shapes(model) == entry["parameters"], entry["config"]
        assert len(blocks(model, entry["blocks"])) == entry["layers"] == config.num_hidden_layers
        assert (entry["hidden"], entry["heads"]) == (config.hidden_size, config.num_attention_heads)
        assert (entry["vocab"], entry["tied"]) == (config.vocab_size, bool(config.tie_word_embeddings))


def test_transformers_towers_have_the_catalogs_blocks(catalog: dict[str, Any]) -> None:
    for entry in catalog["transformersTowers"]:
        config = {
            "source": "transformers",
            "output": "tokens",
            "image_size": entry["imageSize"],
            "layer": entry["layer"],
            **entry,
        }
        with torch.device("meta"):
            model = build_transformers(config)
        facts = entry["facts"]
        names = list(shapes(model))
        assert matching(names, facts["dead"]) == set(dead_in_tower(model, config)), entry["config"]
        assert len(blocks(model, facts["blocks"])) == entry["config"]["num_hidden_layers"]


def build(model: dict[str, Any]) -> ComposedVLA:
    action = dict(model["action"])
    if action["decoder"] == "flowMatching":
        action = {"heads": 2, "steps": 10, "chunk": 4, "timeAlpha": 1.5, "timeBeta": 1.0, **action}
    elif action["decoder"] == "tokens":
        action = {"bins": 16, "chunk": 1, **action}
    config = VLAConfig(
        cameras=("primary",),
        vision=[tower_config(tower) for tower in model["vision"]["towers"]],
        fuse=model["vision"]["fuse"],
        projector=model["projector"],
        language={"config": model["language"]["config"], "tokenizer": "bytes", "spare_tokens": 0, "stop_token": 2},
        action=action,
        mask="causal",
        state_dim=model["stateDim"],
        action_dim=model["actionDim"],
    )
    with torch.device("meta"):
        return ComposedVLA(config)


def modules_of(entry: dict[str, Any], lora: dict[str, Lora] | None = None) -> list[Module]:
    return [
        Module(
            facts["name"],
            parameters=facts["patterns"],
            blocks=facts["blocks"],
            dead=facts["dead"],
            lr=1e-3,
            lora=(lora or {}).get(facts["name"]),
        )
        for facts in entry["modules"]
    ]


def test_whole_models_have_the_catalogs_modules(catalog: dict[str, Any]) -> None:
    for entry in catalog["models"]:
        model = build(entry["model"])
        expected = {name: shape for facts in entry["modules"] for name, shape in facts["parameters"].items()}
        assert shapes(model) == expected, entry["name"]
        partition = Partition(model, modules_of(entry))
        for facts in entry["modules"]:
            assert sorted(partition.names(facts["name"])) == sorted(facts["parameters"]), entry["name"]
            assert [len(stack) for stack in partition.live_blocks(facts["name"])] == facts["liveBlocks"], entry["name"]
        assert set(partition.dead()) == set(model.dead_parameters()), entry["name"]


def test_an_expert_stands_beside_every_family_of_the_catalog(catalog: dict[str, Any]) -> None:
    assert sorted(joint.FAMILIES) == catalog["languageFamilies"]
    assert {entry["name"] for entry in catalog["models"]} >= {f"joint beside {family}" for family in joint.FAMILIES}


def test_an_expert_of_pi0s_sizes_has_pi0s_size(catalog: dict[str, Any]) -> None:
    """LeRobot's pi0: 18 layers and a norm of gemma_300m, and the projections of state, actions, time and velocity."""
    entry = next(entry for entry in catalog["models"] if entry["name"] == "pi0")
    counted = sum(math.prod(shape) for shape in entry["modules"][3]["parameters"].values())
    assert counted == 311_464_960 + 2 * (32 * 1024 + 1024) + (2048 * 1024 + 1024) + (1024**2 + 1024) + (32 * 1024 + 32)


def test_openvla_has_its_published_size(catalog: dict[str, Any]) -> None:
    entry = next(entry for entry in catalog["models"] if entry["name"] == "openvla")
    model = build(entry["model"])
    partition = Partition(model, modules_of(entry))
    by_name = dict(model.named_parameters())
    assert sum(p.numel() for p in by_name.values()) == catalog["openvla"]["parameters"] == 7_541_237_184
    assert sum(by_name[name].numel() for name in partition.dead()) == catalog["openvla"]["dead"] == 43_080_480
    counted = sum(math.prod(shape) for facts in entry["modules"] for shape in facts["parameters"].values())
    assert counted == 7_541_237_184


@pytest.mark.parametrize("published", [True, False])
def test_rank_32_adapters_have_the_catalogs_size(catalog: dict[str, Any], published: bool) -> None:
    """With the published targets 110,828,288; without targets what the catalog says of every live linear."""
    entry = next(entry for entry in catalog["models"] if entry["name"] == "openvla")
    model = build(entry["model"])
    targets = catalog["openvlaLora"]["targets"] if published else {}
    lora = {facts["name"]: Lora(rank=32, alpha=16.0, targets=targets.get(facts["name"])) for facts in entry["modules"]}
    adapters = adapt(model, Partition(model, modules_of(entry, lora)), seed=0)
    expected = sum(facts["publishedLora" if published else "lora"] for facts in entry["modules"])
    assert adapters.count() == expected
    if published:
        assert expected == catalog["openvlaLora"]["parameters"] == 110_828_288


def test_the_environment_has_the_catalogs_versions(catalog: dict[str, Any]) -> None:
    for name, version in catalog["pythonVersions"].items():
        assert importlib.metadata.version(name).split("+")[0] == version
