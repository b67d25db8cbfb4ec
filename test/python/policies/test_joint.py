"""Joined streams: units that are called, what each process holds, inference, mixed precision, dead parameters."""

from typing import Any
from unittest.mock import patch

import joint_twins
import pytest
import tiny
import torch
import torch.distributed as dist
from joint_twins import ROOT, UNITS, Case, Result, build, differences, modules, samples, sharded, spec
from pool import Pool, RemoteError
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from vla_runtime import optim, sharding
from vla_runtime.errors import UserError
from vla_runtime.partition import Partition, plain_name
from vla_runtime.policies import joint
from vla_runtime.policies.training import prepare

JOINED = ("pi0", "pi05", "smolvla")


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm())


# On one process


@pytest.mark.parametrize("kind", JOINED)
def test_names_stay_and_a_second_run_changes_nothing(kind: str) -> None:
    policy = build(kind)
    before = list(policy.state_dict())
    prepare(policy, spec(kind))
    assert list(policy.state_dict()) == before
    batch = samples(Case(kind), 0, [0, 1])  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        assert torch.equal(policy(batch), policy(batch))


@pytest.mark.parametrize("kind", JOINED)
def test_inference_equals_lerobots(kind: str) -> None:
    inputs = samples(Case(kind), 0, [0, 1, 2]).tensors  # pyright: ignore[reportArgumentType]
    inputs = {name: value for name, value in inputs.items() if not name.startswith("action")}
    noise = torch.randn(3, tiny.CHUNK, 6, generator=torch.Generator().manual_seed(3))
    plain, ours = build(kind), build(kind)
    joint.join_streams(ours)
    expected = plain.predict_action_chunk(dict(inputs), noise=noise)
    assert relative(ours.predict_action_chunk(dict(inputs), noise=noise), expected) <= 2e-6


@pytest.mark.parametrize(
    "options",
    [
        {"attention_mode": "self_attn"},
        {"num_expert_layers": 2, "self_attn_every_n_layers": -1},
        {"num_expert_layers": 2, "attention_mode": "self_attn"},
        {"self_attn_every_n_layers": -1},
        {"prefix_length": 60},
        {"add_image_special_tokens": True},
    ],
    ids=str,
)
def test_smolvlas_other_arrangements(options: dict[str, Any]) -> None:
    batch = samples(Case("smolvla"), 0, [0, 1])
    plain, ours = build("smolvla", **options), build("smolvla", **options)
    for policy in (plain, ours):
        policy.requires_grad_(True)  # LeRobot's constructor freezes the last layers, of which keys and values are used
    elements = joint_twins.plain_elements(plain, batch)
    joint.join_streams(ours)
    found = joint_twins.plain_elements(ours, batch)
    assert relative(found, elements) <= 2e-6
    elements.mean().backward()
    found.mean().backward()
    case = Case("smolvla")
    both = [
        Result([1.0], [{n: p.grad for n, p in policy.named_parameters() if p.grad is not None}], {})
        for policy in (ours, plain)
    ]
    worst = differences(case, *both)
    assert max(worst.values()) <= 1e-6, worst
    assert {n for n, p in ours.named_parameters() if p.grad is None} == set(joint.dead_parameters(ours))
    if options == {"num_expert_layers": 2, "attention_mode": "self_attn"}:
        return  # of which LeRobot's own inference fails where a layer has no partner
    inputs = {name: value for name, value in batch.tensors.items() if not name.startswith("action")}
    noise = torch.randn(2, tiny.CHUNK, 6, generator=torch.Generator().manual_seed(3))
    expected = plain.predict_action_chunk(dict(inputs), noise=noise)
    assert relative(ours.predict_action_chunk(dict(inputs), noise=noise), expected) <= 2e-6


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_dead_parameters_are_those_without_a_gradient(kind: str) -> None:
    """By LeRobot's own backward, with everything unfrozen that its constructor freezes."""
    policy = build(kind)
    policy.requires_grad_(True)
    batch = samples(Case(kind), 0, [0, 1])  # pyright: ignore[reportArgumentType]
    joint_twins.plain_elements(policy, batch).mean().backward()
    found = {n for n, p in policy.named_parameters() if p.grad is None or not p.grad.any()}
    assert set(joint.dead_parameters(policy)) == found
    assert len(found) == {"pi0": 9, "pi05": 9, "smolvla": 8, "xvla": 0}[kind]


def test_xvlas_second_projection_is_dead_without_a_second_image() -> None:
    inputs = {k: v for k, v in tiny.features()[0].items() if not k.endswith(tiny.CAMERAS[1])}
    policy = build("xvla", input_features=inputs)
    batch = samples(Case("xvla"), 0, [0, 1])
    joint_twins.plain_elements(policy, batch).mean().backward()
    found = {n for n, p in policy.named_parameters() if p.grad is None or not p.grad.any()}
    assert set(joint.dead_parameters(policy)) == found and len(found) == 2


@pytest.mark.parametrize("kind", JOINED)
def test_dead_parameters_neither_train_nor_have_optimizer_state(kind: str) -> None:
    policy: Any = build(kind)
    prepare(policy, spec(kind))
    dead = joint.dead_parameters(policy)
    parts = Partition(policy, modules(Case(kind), dead))  # pyright: ignore[reportArgumentType]
    before = {name: parameter.detach().clone() for name, parameter in policy.named_parameters()}
    optimizer = optim.adamw(parts, betas=(0.9, 0.95), eps=1e-8)
    schedule = optim.cosine(optimizer, updates=10, warmup=1, floor=0.1)
    parts.enter_phase(0, optimizer, schedule)
    policy(samples(Case(kind), 0, [0, 1])).sum().backward()  # pyright: ignore[reportArgumentType]
    optimizer.step()
    stateful = {name for name, parameter in policy.named_parameters() if parameter in optimizer.state}
    assert stateful == set(before) - set(dead)
    unchanged = {name for name, parameter in policy.named_parameters() if torch.equal(parameter, before[name])}
    assert set(dead) <= unchanged and not unchanged - set(dead)


@pytest.mark.parametrize("kind", JOINED)
def test_a_frozen_language_model_needs_no_backward(kind: str) -> None:
    """Its hidden states carry no gradient, though the actions attend to them."""
    policy: Any = build(kind)
    prepare(policy, spec(kind))
    for name, parameter in policy.named_parameters():
        frozen = joint_twins.module_of(kind, name) in ("vision", "projector", "language")
        parameter.requires_grad_(not frozen and not name.startswith("model.state_proj"))
    heard: list[bool] = []
    trunk = policy.get_submodule(joint_twins._TRUNK[kind])
    for layer in trunk.layers:
        layer.mlp.register_forward_hook(lambda _m, _i, output: heard.append(output.requires_grad))
    policy(samples(Case(kind), 0, [0, 1])).sum().backward()  # pyright: ignore[reportArgumentType]
    assert heard and not any(heard)


@pytest.mark.parametrize("kind", JOINED)
def test_lerobots_own_recompute_is_refused(kind: str) -> None:
    policy = build(kind)
    option = "compile_model" if kind == "smolvla" else "gradient_checkpointing"
    setattr(policy.config, option, True)
    with pytest.raises(UserError, match=option):
        joint.join_streams(policy)


def test_other_policies_have_no_streams_to_join() -> None:
    with pytest.raises(UserError, match="xvla"):
        joint.join_streams(build("xvla"))


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_units_are_the_modules_that_are_called(kind: str) -> None:
    policy = build(kind)
    prepare(policy, spec(kind))
    declared = modules(Case(kind), joint.dead_parameters(policy))  # pyright: ignore[reportArgumentType]
    parts = Partition(policy, declared)
    blocks = {name for module in parts.modules for stack in parts.blocks(module) for name in stack}
    roots = {name for module in parts.modules for name in parts.roots(module)} - blocks
    tied = {name.removesuffix(".weight") for name in ROOT[kind]}
    assert roots - tied == set(UNITS[kind])


# On two processes


def _holds(kind: str) -> dict[str, Any]:
    case = Case(kind)  # pyright: ignore[reportArgumentType]
    policy, parts, _ = sharded(case)
    names = {id(module): plain_name(f"{name}.")[:-1] for name, module in policy.named_modules()}
    total = sum(p.numel() * p.element_size() for p in policy.parameters())
    local = sum(p.to_local().numel() * p.element_size() for p in policy.parameters())
    called: dict[str, set[str]] = {"loss": set(), "predict": set()}
    during = ["loss"]
    for module in policy.modules():
        if isinstance(module, FSDPModule):
            module.register_forward_pre_hook(lambda m, _i: called[during[0]].add(names[id(m)]))  # pyright: ignore[reportAttributeAccessIssue]
    batch = samples(case, 0, [2 * dist.get_rank(), 2 * dist.get_rank() + 1])
    policy(batch).sum().backward()
    gathered = [n for n, p in policy.named_parameters() if not isinstance(p, DTensor)]
    during[0] = "predict"
    policy.predict(batch)
    live = {
        names[id(unit)]: held for unit, held in parts.units.items() if unit is not policy and held - set(parts.dead())
    }
    return {
        "share": local / total,
        "whole": gathered,  # after a prediction the root stays gathered until the next update
        "root": parts.units[policy],
        "live": set(live),
        "called": called,
        "keys": list(policy.state_dict()),
        "units": {names[id(unit)] for unit in parts.units if unit is not policy},
    }


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_sharding_is_real_and_every_unit_is_called(policy_pool: Pool, kind: str) -> None:
    """Fails when a release of LeRobot stops calling a unit: its parameters would never be gathered, or never be freed."""
    found = policy_pool.run(_holds, kind=kind)[0]
    # X-VLA's position embedding has one row, which one process holds.
    assert 0.5 <= found["share"] < (0.53 if kind == "xvla" else 0.51)
    assert found["whole"] == []
    assert found["root"] == ROOT[kind]
    assert found["keys"] == list(build(kind).state_dict())
    assert found["live"] <= found["called"]["loss"], found["live"] - found["called"]["loss"]
    # Only what the loss alone needs is not called when actions are asked for.
    assert found["live"] <= found["called"]["predict"], found["live"] - found["called"]["predict"]
    assert set(UNITS[kind]) <= found["units"]


def _forgets_a_unit(kind: str) -> Any:
    whole = sharding.fully_shard
    trunk = f"{joint_twins._EXPERT[kind]}.layers.1"

    def some(module: Any, **named: Any) -> Any:
        return module if module is forgotten[0] else whole(module, **named)

    forgotten: list[Any] = [None]
    start = sharding.shard

    def shard(policy: Any, *args: Any, **named: Any) -> None:
        forgotten[0] = policy.get_submodule(trunk)
        start(policy, *args, **named)

    with patch.object(sharding, "fully_shard", some), patch.object(sharding, "shard", shard):
        return _holds(kind)


@pytest.mark.parametrize("kind", JOINED)
def test_a_unit_that_is_not_wrapped_is_found(policy_pool: Pool, kind: str) -> None:
    with pytest.raises((RemoteError, AssertionError)):
        found = policy_pool.run(_forgets_a_unit, kind=kind)[0]
        assert f"{joint_twins._EXPERT[kind]}.layers.1" in found["called"]["loss"]


def _predicts(case: Case) -> Tensor:
    policy, _, _ = sharded(case)
    batch = samples(case, 0, [0, 1, 2])
    batch.noise = torch.randn(3, tiny.CHUNK, 6, generator=torch.Generator().manual_seed(3))
    first = policy.predict(batch)
    policy.train()
    (policy(batch) / 7).sum().backward()  # an evaluation leaves nothing behind that training trips over
    assert torch.equal(policy.predict(batch), first)
    return first


@pytest.mark.parametrize(
    "case",
    [
        Case("pi0", recompute="both"),
        Case("pi05"),
        Case("smolvla", recompute="both"),
        Case("pi0", strategy="ddp"),
        Case("pi05", strategy="gradOp", precision="mixed"),
        Case("smolvla", precision="mixed"),
    ],
    ids=str,
)
def test_the_sharded_policy_predicts_what_lerobots_does(policy_pool: Pool, case: Case) -> None:
    inputs = {n: v for n, v in samples(case, 0, [0, 1, 2]).tensors.items() if not n.startswith("action")}
    noise = torch.randn(3, tiny.CHUNK, 6, generator=torch.Generator().manual_seed(3))
    expected = build(case.kind).predict_action_chunk(inputs, noise=noise)
    for found in policy_pool.run(_predicts, case=case):
        assert relative(found, expected) <= (2e-6 if case.precision == "fp32" else 0.01)
