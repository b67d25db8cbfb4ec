"""The catalog's entries of LeRobot's policies against LeRobot's own classes: at full size on the meta device, and small ones that run."""

import dataclasses
import json
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import tiny
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config
from lerobot.policies.smolvla import smolvlm_with_expert
from torch import Tensor, nn
from vla_runtime.partition import Module, Partition
from vla_runtime.policies.joint import join_streams

ROOT = Path(__file__).parents[3]
TYPES = ("act", "diffusion", "smolvla", "pi0", "pi05", "xvla")
JOINT = ("smolvla", "pi0", "pi05")


def dump(asked: list[dict[str, Any]]) -> dict[str, Any]:
    """What the catalog says; `asked` are further policies to describe."""
    command = [str(ROOT / "node_modules/.bin/tsx"), str(ROOT / "test/catalog/dump-policies.ts")]
    found = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, input=json.dumps(asked).encode())
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def catalog() -> dict[str, Any]:
    return dump([])


def case_of(catalog: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(case for case in catalog["policies"] if (case["type"], case["name"]) == (kind, name))


def cases_of(catalog: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [case for case in catalog["policies"] if case["type"] == kind]


# Fields


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return getattr(value, "value", value)


@pytest.mark.parametrize("kind", TYPES)
def test_fields_and_defaults_are_those_of_the_configuration_class(kind: str, catalog: dict[str, Any]) -> None:
    inherited = {field.name for field in dataclasses.fields(PreTrainedConfig)} - {"n_obs_steps"}
    config = make_policy_config(kind, device="cpu")
    real = {
        field.name: plain(getattr(config, field.name))
        for field in dataclasses.fields(config)
        if field.name not in inherited
    }
    said = catalog["policyFields"][kind]
    assert not set(said["fields"]) & set(said["managed"])
    assert {**said["fields"], **said["managed"]} == real
    assert set(catalog["baseFields"]) == inherited


# Full size


def build_config(case: dict[str, Any], catalog: dict[str, Any], directory: Path) -> Any:
    """LeRobot's configuration of a case; nothing is downloaded."""
    values = {
        key: tuple(value) if isinstance(value, list) and all(isinstance(item, int) for item in value) else value
        for key, value in case["config"].items()
    }
    if case["type"] in ("act", "diffusion"):
        values["pretrained_backbone_weights"] = None
    if case["type"] == "smolvla":
        directory.joinpath("config.json").write_text(json.dumps(catalog["smolvlm2"]["config"]))
        values["vlm_model_name"] = str(directory)
    inputs = {
        f"observation.images.{camera}": PolicyFeature(FeatureType.VISUAL, (3, *size))
        for camera, size in case["imageSizes"].items()
    }
    if case["stateDim"]:
        inputs["observation.state"] = PolicyFeature(FeatureType.STATE, (case["stateDim"],))
    outputs = {"action": PolicyFeature(FeatureType.ACTION, (case["actionDim"],))}
    return make_policy_config(
        case["type"], device="cpu", input_features=inputs, output_features=outputs, push_to_hub=False, **values
    )


def build_meta(case: dict[str, Any], catalog: dict[str, Any], directory: Path) -> Any:
    """The policy at full size on the meta device."""
    config = build_config(case, catalog, directory)
    config.device = "meta"
    tokens = SimpleNamespace(fake_image_token_id=1, global_image_token_id=2)
    processors = SimpleNamespace(from_pretrained=lambda _: SimpleNamespace(tokenizer=tokens))
    with patch.object(smolvlm_with_expert, "AutoProcessor", processors), torch.device("meta"):
        return get_policy_class(case["type"])(config)


def matching(names: list[str], patterns: list[str]) -> set[str]:
    for pattern in patterns:
        assert any(fnmatchcase(name, pattern) for name in names), f"{pattern} matches nothing"
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def partition_of(policy: nn.Module, facts: dict[str, Any]) -> Partition:
    modules = [
        Module(m["name"], parameters=m["patterns"], blocks=m["blocks"], dead=m["dead"], lr=1e-3)
        for m in facts["modules"]
    ]
    return Partition(policy, modules)


@pytest.mark.parametrize("kind", TYPES)
def test_names_and_shapes_at_full_size(kind: str, catalog: dict[str, Any], tmp_path: Path) -> None:
    for case in cases_of(catalog, kind):
        check_names_and_shapes(case, build_meta(case, catalog, tmp_path))


def check_names_and_shapes(case: dict[str, Any], policy: Any) -> None:
    where, facts = case["name"], case["facts"]
    assert facts["problems"] == [], where
    real = {name: list(parameter.shape) for name, parameter in policy.named_parameters()}
    said = {name: shape for module in facts["modules"] for name, shape in module["parameters"].items()}
    assert said == real, where

    tied = {key for group in facts["weights"]["tied"] for key in group}
    state = policy.state_dict()
    buffers = {key: list(value.shape) for key, value in state.items() if key not in real and key not in tied}
    assert {key: shape for module in facts["modules"] for key, shape in module["buffers"].items()} == buffers, where
    assert tied <= set(state), where

    # torch reads the output projection of its own multi-head attention without calling it: no layer for an adapter.
    linears = {
        f"{name}.weight"
        for name, module in policy.named_modules()
        if isinstance(module, nn.Linear) and not isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear)
    }
    assert {name for module in facts["modules"] for name in module["linears"]} == linears, where

    for module in facts["modules"]:
        frozen = set(module["parameters"]) if module["frozen"] else matching(list(real), module["frozenParts"])
        owned = {name: policy.get_parameter(name).requires_grad for name in module["parameters"]}
        assert {name for name, trains in owned.items() if not trains} == frozen, (where, module["name"])

    batch_norms = {name for name, module in policy.named_modules() if isinstance(module, nn.BatchNorm2d)}
    modules = [name for name, _ in policy.named_modules()]
    assert matching(modules, facts["batchNorm"]) == batch_norms, where

    partition = partition_of(policy, facts)  # raises where the patterns are no partition
    for module in facts["modules"]:
        assert sorted(partition.names(module["name"])) == sorted(module["parameters"]), (where, module["name"])
        live = [len(stack) for stack in partition.live_blocks(module["name"])]
        assert live == module["liveBlocks"], (where, module["name"])
        for unit in module["units"]:
            policy.get_submodule(unit)


@pytest.mark.parametrize("kind", TYPES)
def test_recipe_and_lengths(kind: str, catalog: dict[str, Any], tmp_path: Path) -> None:
    for case in cases_of(catalog, kind):
        check_recipe_and_lengths(case["facts"], build_config(case, catalog, tmp_path))


def check_recipe_and_lengths(facts: dict[str, Any], config: Any) -> None:
    optimizer = config.get_optimizer_preset()
    recipe = facts["recipe"]
    assert (recipe["lr"], recipe["betas"], recipe["eps"]) == (optimizer.lr, list(optimizer.betas), optimizer.eps)
    assert (recipe["weightDecay"], recipe["clip"]) == (optimizer.weight_decay, optimizer.grad_clip_norm)
    assert recipe["optimizer"] == {"xvla-adamw": "adamw"}.get(optimizer.type, optimizer.type)
    scheduler = config.get_scheduler_preset()
    if scheduler is None:
        assert recipe["schedule"] == {"kind": "constant"}
    elif scheduler.type == "diffuser":
        assert scheduler.name == recipe["schedule"]["kind"] == "cosine"
        assert scheduler.num_warmup_steps == recipe["schedule"]["warmup"]
    else:
        assert recipe["schedule"] == {
            "kind": "cosineDecay",
            "warmup": scheduler.num_warmup_steps,
            "decay": scheduler.num_decay_steps,
            "floor": scheduler.decay_lr / scheduler.peak_lr,
        }
    deltas = config.action_delta_indices
    assert (facts["chunk"], facts["firstAction"]) == (len(deltas), deltas[0])
    assert facts["observationSteps"] == len(config.observation_delta_indices or [0])
    assert facts["actionSteps"] == config.n_action_steps
    assert facts["normalization"] == plain(config.normalization_mapping)


def test_learning_rates_of_the_modules(catalog: dict[str, Any], tmp_path: Path) -> None:
    """X-VLA's optimizer makes groups by name; ACT's has one of its own for the backbone."""
    case = case_of(catalog, "xvla", "as published")
    policy = build_meta(case, catalog, tmp_path)
    config = dataclasses.replace(policy.config.get_optimizer_preset(), weight_decay=0.5, soft_prompt_lr_scale=0.25)
    groups = config.build(policy.get_optim_params()).param_groups
    real = {id(p): (group["lr"] / config.lr, group["weight_decay"] / 0.5) for group in groups for p in group["params"]}
    recipe = case["facts"]["recipe"]
    for module in case["facts"]["modules"]:
        name = module["name"]
        rate = 0.25 if name == "softPrompts" else recipe["lrFactors"].get(name, 1)
        factors = (rate, recipe["weightDecayFactors"].get(name, 1))
        for parameter in module["parameters"]:
            assert real[id(policy.get_parameter(parameter))] == pytest.approx(factors), parameter

    rates = {"optimizer_lr": 1e-4, "optimizer_lr_backbone": 1e-5}
    case = dump([{**case_of(catalog, "act", "by default"), "config": rates}])["asked"][0]
    assert case["facts"]["recipe"]["lrFactors"] == {"vision": pytest.approx(0.1)}
    policy = build_meta(case, catalog, tmp_path)
    own = {id(p) for group in policy.get_optim_params() if group.get("lr") == 1e-5 for p in group["params"]}
    assert own == {id(policy.get_parameter(name)) for name in case["facts"]["modules"][0]["parameters"]}


@pytest.mark.parametrize("kind", ["pi0", "pi05", "xvla", "act"])
def test_tokens_per_image_at_full_size(kind: str, catalog: dict[str, Any], tmp_path: Path) -> None:
    case = cases_of(catalog, kind)[0]
    model = build_meta(case, catalog, tmp_path).model
    side = case["facts"]["values"].get("image_resolution", [224, 224]) if kind != "act" else case["imageSizes"]["front"]
    image = torch.zeros(1, 3, *side, device="meta")
    if kind == "act":
        tokens = model.backbone(image)["feature_map"].flatten(2).shape[2]
    elif kind == "xvla":
        tokens = model.vlm.get_image_features(image).pooler_output.shape[1]
    else:
        tokens = model.paligemma_with_expert.embed_image(image).shape[1]
    assert case["facts"]["sequence"]["perImage"] == tokens


@pytest.mark.parametrize("kind", JOINT)
def test_heads(kind: str, catalog: dict[str, Any], tmp_path: Path) -> None:
    case = cases_of(catalog, kind)[0]
    policy = build_meta(case, catalog, tmp_path)
    attention = {module["name"]: module.get("attention") for module in case["facts"]["modules"]}
    both = policy.model.vlm_with_expert if kind == "smolvla" else policy.model.paligemma_with_expert
    towers = {
        "vision": both.vlm.model.vision_model if kind == "smolvla" else both.paligemma.model.vision_tower,
        "language": both.vlm.model.text_model if kind == "smolvla" else both.paligemma.model.language_model,
        "expert": both.lm_expert if kind == "smolvla" else both.gemma_expert.model,
    }
    for name, tower in towers.items():
        config = tower.config
        heads = config.num_attention_heads
        assert attention[name] == {
            "heads": heads,
            "keyValueHeads": getattr(config, "num_key_value_heads", heads),
            "headDim": getattr(config, "head_dim", config.hidden_size // heads),
        }, name


# Small policies that run


DEPTH = 18  # of pi0's transformers: the catalog's patterns name its last layer
PIXELS = 64  # of Diffusion Policy's images: its BatchNorm needs a map of more than one cell


def pixels(kind: str) -> int:
    return PIXELS if kind == "diffusion" else tiny.IMAGE


def small_config(kind: str, directory: Path, **options: Any) -> Any:
    """LeRobot's configuration of a small policy."""
    if kind not in ("act", "diffusion"):
        return tiny.config(kind, directory, **options)
    inputs, outputs = tiny.features(image=pixels(kind))
    shared: dict[str, Any] = {
        "input_features": inputs,
        "output_features": outputs,
        "device": "cpu",
        "pretrained_backbone_weights": None,
    }
    if kind == "act":
        own: dict[str, Any] = {
            "chunk_size": tiny.CHUNK,
            "n_action_steps": tiny.CHUNK,
            "dim_model": 32,
            "n_heads": 4,
            "dim_feedforward": 48,
            "n_encoder_layers": 2,
            "n_vae_encoder_layers": 2,
            "latent_dim": 8,
        }
    else:
        own = {"horizon": 8, "n_action_steps": 4, "down_dims": (16, 32), "n_groups": 4, "diffusion_step_embed_dim": 8}
    return make_policy_config(kind, **(shared | own | options))


def small_policy(kind: str, directory: Path, **options: Any) -> Any:
    """A small policy of LeRobot's own class. No parameter is zero everywhere, since gradients would be too."""
    if kind not in ("act", "diffusion"):
        with patch.object(tiny, "DEPTH", DEPTH):
            return tiny.policy(kind, directory, **options)
    torch.manual_seed(0)
    policy: Any = get_policy_class(kind)(small_config(kind, directory, **options))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return policy.train()


def small_facts(
    catalog: dict[str, Any], wanted: list[tuple[str, dict[str, Any]]], directory: Path
) -> list[dict[str, Any]]:
    """What the catalog says of small policies whose configurations have these changes."""
    asked: list[dict[str, Any]] = []
    for kind, changes in wanted:
        config = small_config(kind, directory)
        values = {name: plain(getattr(config, name)) for name in catalog["policyFields"][kind]["fields"]}
        entry: dict[str, Any] = {
            "type": kind,
            "config": values | changes,
            "cameras": list(tiny.CAMERAS),
            "imageSizes": {camera: [pixels(kind), pixels(kind)] for camera in tiny.CAMERAS},
            "stateDim": tiny.STATE,
            "actionDim": tiny.ACTION,
        }
        if kind == "smolvla":
            entry["base"] = json.loads((Path(config.vlm_model_name) / "config.json").read_text())
        asked.append(entry)
    return [entry["facts"] for entry in dump(asked)["asked"]]


def batch(kind: str, config: Any, size: int = 3) -> dict[str, Any]:
    """Random inputs and actions."""
    generator = torch.Generator().manual_seed(1)
    frames = () if kind != "diffusion" else (config.n_obs_steps,)
    chunk = config.horizon if kind == "diffusion" else config.chunk_size
    side = pixels(kind)
    made: dict[str, Tensor] = {
        f"observation.images.{camera}": torch.rand(size, *frames, 3, side, side, generator=generator)
        for camera in tiny.CAMERAS
    }
    made["observation.state"] = torch.randn(size, *frames, tiny.STATE, generator=generator)
    made["action"] = torch.randn(size, chunk, tiny.ACTION, generator=generator)
    made["action_is_pad"] = torch.zeros(size, chunk, dtype=torch.bool)
    made["observation.language.tokens"] = torch.randint(2, 200, (size, tiny.TOKENS), generator=generator)
    made["observation.language.attention_mask"] = torch.ones(size, tiny.TOKENS, dtype=torch.bool)
    return made


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("act", {}),
    ("act", {"use_vae": False, "pre_norm": True, "n_decoder_layers": 2}),
    ("diffusion", {}),
    ("diffusion", {"use_separate_rgb_encoder_per_camera": False, "use_group_norm": True}),
    ("smolvla", {}),
    ("smolvla", {"num_vlm_layers": 3}),
    ("smolvla", {"attention_mode": "self_attn", "num_expert_layers": 2}),
    ("pi0", {}),
    ("pi05", {}),
    ("xvla", {}),
    ("xvla", {"use_hetero_proj": True, "len_soft_prompts": 0}),
]


@pytest.fixture(scope="module")
def variants(catalog: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the catalog says of VARIANTS."""
    return small_facts(catalog, VARIANTS, tmp_path_factory.mktemp("variants"))


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=lambda index: f"{VARIANTS[index][0]}-{index}")
def test_dead_parameters_and_called_blocks(index: int, variants: list[dict[str, Any]], tmp_path: Path) -> None:
    kind, options = VARIANTS[index]
    facts = variants[index]
    assert facts["problems"] == []
    policy = small_policy(kind, tmp_path, **options)
    check_dead(policy, facts)
    if kind in JOINT:
        join_streams(policy)
    check_called(policy, facts)
    if kind == "smolvla":
        with torch.no_grad():
            tokens = policy.model.vlm_with_expert.embed_image(torch.zeros(1, 3, tiny.IMAGE, tiny.IMAGE))
        assert facts["sequence"]["perImage"] == tokens.shape[1]


def check_dead(policy: Any, facts: dict[str, Any]) -> None:
    """`dead` is exactly what gets no gradient, or zeros, in LeRobot's own backward."""
    policy.requires_grad_(True)
    loss, _ = policy(batch(facts["type"], policy.config))
    loss.backward()
    real = {name for name, p in policy.named_parameters() if p.grad is None or not bool(p.grad.any())}
    names = [name for name, _ in policy.named_parameters()]
    said: set[str] = set()
    for module in facts["modules"]:
        said |= matching(names, module["dead"])
    assert said == real


def check_called(policy: Any, facts: dict[str, Any]) -> None:
    """Blocks and units are called through `forward`, and hold every live parameter but those that their parents read."""
    called: set[str] = set()
    for name, module in policy.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: called.add(name))
    policy(batch(facts["type"], policy.config))
    partition = partition_of(policy, facts)
    loose = {name for name, _ in policy.named_parameters()} - set(partition.dead())
    for module in facts["modules"]:
        blocks = [block for stack in partition.live_blocks(module["name"]) for block in stack]
        for unit in (*blocks, *module["units"]):
            held = {name for name in loose if name.startswith(f"{unit}.")}
            assert unit in called or not held, unit
            loose -= held
    read = {
        "act": {"model.encoder_1d_feature_pos_embed.weight", "model.decoder_pos_embed.weight"},
        "xvla": {"model.transformer.pos_emb", "model.vlm.language_model.shared.weight"},
    }.get(facts["type"], set())
    if facts["values"].get("use_vae"):
        read.add("model.vae_encoder_cls_embed.weight")
    assert loose == read


# What LeRobot refuses, or fails with

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("act", {"temporal_ensemble_coeff": 0.01}, "temporal_ensemble_coeff"),
    ("act", {"n_action_steps": 7}, "n_action_steps"),
    ("act", {"dim_model": 30, "n_heads": 3}, "dim_model"),
    ("act", {"n_heads": 5}, "n_heads"),
    ("act", {"replace_final_stride_with_dilation": True}, "replace_final_stride_with_dilation"),
    ("diffusion", {"horizon": 10}, "horizon"),
    ("diffusion", {"kernel_size": 4}, "kernel_size"),
    ("diffusion", {"n_groups": 5}, "n_groups"),
    ("diffusion", {"crop_shape": [80, 80]}, "crop_shape"),
    ("diffusion", {"crop_shape": [32, 32]}, "images"),
    ("smolvla", {"num_expert_layers": 3}, "num_expert_layers"),
    ("smolvla", {"num_expert_layers": 2}, "num_expert_layers"),
    ("smolvla", {"max_action_dim": 3}, "max_action_dim"),
    ("pi0", {"max_state_dim": 2}, "max_state_dim"),
    ("pi05", {"image_resolution": [32, 48]}, "image_resolution"),
    ("xvla", {"max_len_seq": 20}, "max_len_seq"),
    ("xvla", {"action_mode": "joint", "max_state_dim": 5}, "max_state_dim"),
    ("xvla", {"num_heads": 5}, "num_heads"),
]
# Whatever LeRobot, transformers and torch raise.
REFUSALS = (ValueError, NotImplementedError, AssertionError, RuntimeError, IndexError)


def test_what_the_catalog_finds_wrong_lerobot_cannot_run(catalog: dict[str, Any], tmp_path: Path) -> None:
    described = small_facts(catalog, [(kind, options) for kind, options, _ in REFUSED], tmp_path)
    for (kind, options, field), facts in zip(REFUSED, described, strict=True):
        assert field in {problem["field"] for problem in facts["problems"]}, (kind, options)
        with pytest.raises(REFUSALS):
            policy = small_policy(kind, tmp_path, **options)
            policy(batch(kind, policy.config))
