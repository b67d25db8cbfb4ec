"""Parameter groups, schedules, clipping."""

import math

import pytest
import torch
import toy
from pool import Pool
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from vla_runtime import optim
from vla_runtime.errors import UserError
from vla_runtime.partition import Frozen, Module, Partition


def _parts() -> Partition:
    return Partition(toy.Toy(), toy.toy_modules())


def test_biases_and_norms_do_not_decay_unless_asked() -> None:
    optimizer = optim.adamw(_parts())
    decay = {name: group.weight_decay for group in optimizer.groups for name in group.names}
    assert decay["language_model.layers.0.fc1.weight"] == 0.1
    assert decay["language_model.embed_tokens.weight"] == 0.1
    assert decay["language_model.layers.0.fc1.bias"] == 0
    assert decay["language_model.norm.weight"] == 0
    asked = optim.adamw(_parts(), decay_bias_and_norm=True)
    assert {group.weight_decay for group in asked.groups if group.module == "language"} == {0.1}


def test_groups_follow_the_modules() -> None:
    parts = _parts()
    optimizer = optim.adamw(parts, betas=(0.7, 0.8), eps=1e-5)
    assert [group.lr for group in optimizer.groups if group.module == "vision"] == [3e-3, 3e-3]
    assert all(values["betas"] == (0.7, 0.8) and values["fused"] for values in optimizer.param_groups)
    live = {name for name, _ in parts.named_parameters()} - set(parts.dead())
    assert sorted(name for group in optimizer.groups for name in group.names) == sorted(live)


def _curve(kind: str, updates: int) -> list[float]:
    model = nn.Sequential(nn.Linear(2, 2))
    parts = Partition(model, [Module("all", ["*"], lr=2.0)])
    optimizer = optim.adamw(parts)
    schedule = {
        "cosine": lambda: optim.cosine(optimizer, updates=updates, warmup=4, floor=0.1),
        "constant": lambda: optim.constant(optimizer, warmup=4),
        "linear": lambda: optim.linear(optimizer, updates=updates, warmup=4, floor=0.1),
    }[kind]()
    values: list[float] = []
    for _ in range(updates + 1):
        values.append(schedule.lrs()["all"])
        schedule.step()
    return values


@pytest.mark.parametrize("kind", ["cosine", "constant", "linear"])
def test_schedules(kind: str) -> None:
    values = _curve(kind, 20)
    assert values[:4] == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert values[4] == pytest.approx(2.0)
    half, end = {"cosine": (1.1, 0.2), "constant": (2.0, 2.0), "linear": (1.1, 0.2)}[kind]
    assert values[12] == pytest.approx(half)
    assert values[20] == pytest.approx(end)
    if kind == "cosine":
        assert values[8] == pytest.approx(0.2 + 1.8 * 0.5 * (1 + math.cos(math.pi / 4)))


def test_schedule_resumes_where_it_was() -> None:
    parts = _parts()
    optimizer = optim.adamw(parts)
    schedule = optim.cosine(optimizer, updates=10, warmup=2)
    for _ in range(5):
        schedule.step()
    again = optim.cosine(optim.adamw(parts), updates=10, warmup=2)
    again.load_state_dict(schedule.state_dict())
    assert again.lrs() == schedule.lrs() and again.update == 5


@pytest.mark.parametrize("max_norm", [0.1, 1e6, None])
def test_clipping_is_by_the_global_norm(max_norm: float | None) -> None:
    parts = Partition(toy.Toy(), toy.toy_modules(language={"freeze": [Frozen()]}))
    torch.manual_seed(0)
    for _, parameter in parts.trainable():
        parameter.grad = torch.randn_like(parameter)
    norm = math.sqrt(sum(float(p.grad.square().sum()) for _, p in parts.trainable() if p.grad is not None))
    norms = optim.clip_gradients(parts, max_norm)
    assert float(norms["language"]) == 0
    assert math.sqrt(sum(float(value) ** 2 for value in norms.values())) == pytest.approx(norm, rel=1e-5)
    after = math.sqrt(sum(float(p.grad.square().sum()) for _, p in parts.trainable() if p.grad is not None))
    assert after == pytest.approx(min(norm, max_norm or norm), rel=1e-4)


def test_a_non_finite_gradient_shows_in_its_module() -> None:
    parts = _parts()
    for _, parameter in parts.trainable():
        parameter.grad = torch.zeros_like(parameter)
    dict(parts.named_parameters())["projector.weight"].grad[0, 0] = math.inf  # pyright: ignore[reportOptionalSubscript]
    norms = optim.clip_gradients(parts, 1.0)
    assert {name for name, norm in norms.items() if not torch.isfinite(norm)} == {"projector"}


def test_a_parameter_that_the_model_does_not_use_is_named() -> None:
    parts = _parts()
    for name, parameter in parts.trainable():
        parameter.grad = None if name == "projector.bias" else torch.zeros_like(parameter)
    with pytest.raises(UserError, match="projector.bias .module projector. trains but got no gradient"):
        optim.clip_gradients(parts, 1.0)


def _clip_over_meshes() -> tuple[dict[str, float], float, float]:
    """Gradients on two meshes, split or whole, and plain ones beside them."""
    one, two = (init_device_mesh("cpu", (2,), mesh_dim_names=(name,)) for name in ("a", "b"))
    grid = init_device_mesh("cpu", (1, 2), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(0)
    model = nn.ModuleDict({name: nn.Linear(5, 3) for name in "abcd"})
    modules = [Module(name, [f"{name}.*"], lr=1.0) for name in "abcd"]
    whole = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    expected = math.sqrt(sum(float(g.square().sum()) for g in whole.values()))
    spread = {"a": (one, [Shard(0)]), "b": (two, [Shard(0)]), "c": (grid, [Replicate(), Shard(0)])}
    for module, (mesh, placements) in spread.items():
        layer = model[module]
        for name in ("weight", "bias"):
            split = nn.Parameter(distribute_tensor(getattr(layer, name).detach(), mesh, placements))
            split.grad = distribute_tensor(whole[f"{module}.{name}"], mesh, placements)
            setattr(layer, name, split)
    for name in ("weight", "bias"):
        getattr(model["d"], name).grad = whole[f"d.{name}"].clone()
    parts = Partition(model, modules)
    norms = {name: float(norm) for name, norm in optim.clip_gradients(parts, 1.0).items()}
    squares = 0.0
    for parameter in model.parameters():
        gradient = parameter.grad
        assert gradient is not None
        full = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient  # pyright: ignore
        squares += float(full.square().sum())
    by_module = {m: math.sqrt(sum(float(g.square().sum()) for n, g in whole.items() if n[0] == m)) for m in "abcd"}
    assert norms == pytest.approx(by_module, rel=1e-5)
    return norms, expected, math.sqrt(squares)


def test_clipping_over_meshes_and_plain_tensors(pool: Pool) -> None:
    for norms, expected, after in pool.run(_clip_over_meshes):
        assert math.sqrt(sum(norm**2 for norm in norms.values())) == pytest.approx(expected, rel=1e-5)
        assert after == pytest.approx(1.0, rel=1e-4)
