"""Modules over parameters, freeze phases, and resume on either side of a boundary."""

import copy
from typing import Any

import pytest
import torch
import torch.distributed as dist
import toy
import twins
from pool import Pool
from torch import nn
from torch.distributed.tensor import DTensor
from vla_runtime import mesh, optim, recompute, sharding
from vla_runtime.errors import UserError
from vla_runtime.partition import AllTrain, Frozen, LastLayers, Lora, Module, Partition, adapted_name, saved_name


def _partition(**changes: dict[str, Any]) -> Partition:
    return Partition(toy.Toy(), toy.toy_modules(**changes))


def test_each_parameter_has_one_module_and_dead_ones_are_set_aside() -> None:
    parts = _partition()
    model = parts.model
    assert sum(len(parts.names(name)) for name in parts.modules) == len(list(model.parameters()))
    dead = parts.dead()
    assert {name.split(".")[1] for name in dead} == {"blocks", "norm"} and len(dead) == 16
    assert all(not dict(parts.named_parameters())[name].requires_grad for name in dead)
    assert not {name for group in optim.adamw(parts).groups for name in group.names} & set(dead)
    assert parts.blocks("vision") == [[f"vision_backbone.blocks.{i}" for i in range(4)]]
    assert parts.live_blocks("vision") == [[f"vision_backbone.blocks.{i}" for i in range(3)]]
    assert parts.roots("projector") == ["projector", "state_projector"]
    assert parts.roots("action") == ["action_head"]


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        (toy.toy_modules()[:3], ["action_head.0.weight", "no module", "language_model.*"]),
        ([*toy.toy_modules(), Module("extra", ["*.fc1.*"], lr=1.0)], ["fc1", "several modules", "extra (*.fc1.*)"]),
        (
            toy.toy_modules(action={"parameters": ["action_head.*", "head.*"]}),
            ["match no parameter", "head.* (action)"],
        ),
        (toy.toy_modules(vision={"dead": ["vision_backbone.blocks.9.*"]}), ["vision_backbone.blocks.9.*", "dead"]),
        (
            toy.toy_modules(vision={"blocks": ["vision_backbone.layers.*"]}),
            ["vision_backbone.layers.*", "blocks", "no submodule"],
        ),
        ([*toy.toy_modules(), toy.toy_modules()[0]], ["twice", "vision"]),
        (toy.toy_modules(action={"lr": None}), ["action", "no learning rate"]),
        (toy.toy_modules(action={"freeze": []}), ["action", "no freeze phase"]),
        (toy.toy_modules(action={"freeze": [Frozen(), AllTrain()]}), ["action", "until"]),
        (toy.toy_modules(action={"freeze": [Frozen(5), AllTrain(5), Frozen()]}), ["action", "rise"]),
        (toy.toy_modules(action={"freeze": [Frozen(0), AllTrain()]}), ["action", "rise"]),
        (toy.toy_modules(action={"freeze": [LastLayers(1)]}), ["action", "no blocks"]),
        (toy.toy_modules(vision={"freeze": [LastLayers(4)]}), ["vision", "3 live blocks"]),
        (
            toy.toy_modules(
                vision={"freeze": [AllTrain(3), Frozen()]},
                **{name: {"freeze": [Frozen()]} for name in ("projector", "language", "action")},
            ),
            ["update 3", "nothing to train"],
        ),
    ],
)
def test_a_wrong_partition_is_refused(modules: list[Module], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        Partition(toy.Toy(), modules)
    assert all(word in str(error.value) for word in words), error.value


def test_a_parameter_tied_over_two_modules_is_refused() -> None:
    model = toy.Toy()
    model.action_head[0].weight = model.projector.weight  # pyright: ignore[reportIndexIssue, reportAttributeAccessIssue]
    with pytest.raises(UserError, match="one tied parameter"):
        Partition(model, toy.toy_modules())


def test_names() -> None:
    assert saved_name("a._checkpoint_wrapped_module.q.base_layer.bias") == "a.q.bias"
    assert saved_name("a.q.lora_A.default.weight") is None
    assert adapted_name("a._checkpoint_wrapped_module.q.lora_B.default.weight") == "a.q.weight"
    assert adapted_name("a.q.base_layer.weight") == "a.q.weight"


def test_phases_and_learning_rates() -> None:
    parts = _partition(
        vision={"freeze": [Frozen(4), LastLayers(2, until=6, rewarm=2), AllTrain(rewarm=4)]},
        projector={"freeze": [AllTrain(5), Frozen()]},
    )
    optimizer = optim.adamw(parts)
    schedule = optim.constant(optimizer)
    trained: dict[int, set[str]] = {}
    lrs: dict[int, dict[str, float]] = {}
    by_block: dict[int, dict[str, float]] = {}
    for update in range(10):
        parts.enter_phase(update, optimizer, schedule)
        trained[update] = {name for name, _ in parts.trainable("vision")}
        lrs[update] = schedule.lrs()
        by_block[update] = {
            name: values["lr"]
            for group, values in zip(optimizer.groups, optimizer.param_groups, strict=True)
            for name in group.names
        }
        schedule.step()
    assert trained[3] == set()
    assert {name.split(".")[2] for name in trained[4] | trained[5]} == {"1", "2"}
    assert "vision_backbone.patch.weight" in trained[6] and not trained[6] & set(parts.dead())
    assert [lrs[u]["vision"] for u in range(8)] == pytest.approx([0, 0, 0, 0, 1.5e-3, 3e-3, 3e-3, 3e-3])
    late, early = "vision_backbone.blocks.2.fc1.weight", "vision_backbone.blocks.0.fc1.weight"
    assert [by_block[u][late] for u in range(6, 10)] == pytest.approx([3e-3] * 4)
    assert [by_block[u][early] for u in range(6, 10)] == pytest.approx([0.75e-3, 1.5e-3, 2.25e-3, 3e-3])
    assert [lrs[u]["projector"] for u in (4, 5, 9)] == [1e-2, 0, 0]
    assert parts.state_dict() == {"vision": 2, "projector": 1, "language": 0, "action": 0}


def test_a_phase_that_was_left_is_not_entered_again() -> None:
    parts = _partition(vision={"freeze": [Frozen(8), AllTrain()]})
    parts.load_state_dict(
        {"vision": 1, "projector": 0, "language": 0, "action": 0}
    )  # under the old plan the boundary was at 3
    optimizer = optim.adamw(parts)
    parts.enter_phase(4, optimizer, optim.constant(optimizer))
    assert parts.phase["vision"] == 1 and parts.trainable("vision")


def test_unfreezing_starts_without_moments_and_leaves_no_gradient() -> None:
    parts = _partition(action={"freeze": [AllTrain(1), Frozen(2), AllTrain()]})
    optimizer = optim.adamw(parts)
    schedule = optim.constant(optimizer)
    weight = dict(parts.named_parameters())["action_head.0.weight"]
    for update in range(3):
        parts.enter_phase(update, optimizer, schedule)
        assert weight.grad is None and weight not in optimizer.state
        before = weight.detach().clone()
        for _, parameter in parts.trainable():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        assert (weight.requires_grad, torch.equal(before, weight)) == (update != 1, update == 1)
    assert optimizer.state[weight]["step"] == 1


def test_declared_hyperparameters_return_after_loading() -> None:
    parts = _partition()
    optimizer = optim.adamw(parts, betas=(0.8, 0.9), eps=1e-7)
    schedule = optim.cosine(optimizer, updates=10, warmup=2)
    declared = copy.deepcopy([{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups])
    for group in optimizer.param_groups:
        group.update(lr=7.0, weight_decay=7.0, betas=(0.1, 0.1), eps=7.0)
    parts.enter_phase(0, optimizer, schedule)
    assert [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups] == declared


BOUNDARY = twins.Case(boundary=True, recompute="full")
TOTAL = 4


def _train(case: twins.Case, start: int, stop: int, state: dict[str, Any] | None) -> dict[str, Any]:
    """Updates start to stop in a process that has just been started, from the state of a checkpoint."""
    device = mesh.device_mesh(shard=dist.get_world_size(), device="cpu")
    model = twins.build(case).double()
    parts = Partition(model, twins.modules(case))
    recompute.add_recompute(model, parts)
    sharding.shard(model, device, parts, strategy=case.strategy)
    optimizer = optim.adamw(parts)
    schedule = optim.cosine(optimizer, updates=TOTAL, warmup=2)
    parameters = dict(parts.named_parameters())
    if state is not None:
        parts.load_state_dict(state["phases"])
        for name, parameter in parameters.items():
            with torch.no_grad():
                parameter.copy_(twins.split_like(state["weights"][name], parameter))
            if name in state["optimizer"]:
                saved = state["optimizer"][name]
                optimizer.state[parameter] = {
                    "step": saved["step"].clone(),
                    **{key: twins.split_like(saved[key], parameter).clone() for key in ("exp_avg", "exp_avg_sq")},
                }
        schedule.load_state_dict(state["schedule"])
    for update in range(start, stop):
        parts.enter_phase(update, optimizer, schedule)
        batches = [twins.samples(case, update, positions) for positions in twins.shares(case, dist.get_rank())]
        for batch in batches:
            (model(batch).sum() / 100).backward()
        optim.clip_gradients(parts, None)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    trained = {name for name, parameter in parts.trainable()}
    held = {name for name, parameter in parameters.items() if parameter in optimizer.state}
    assert held == trained, held ^ trained

    def whole(tensor: torch.Tensor) -> torch.Tensor:
        return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()

    return {
        "phases": parts.state_dict(),
        "schedule": schedule.state_dict(),
        "weights": {name: whole(parameter) for name, parameter in parameters.items()},
        "optimizer": {
            n: {k: whole(v) for k, v in optimizer.state[p].items()}
            for n, p in parameters.items()
            if p in optimizer.state
        },
    }


def _equal(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b


@pytest.mark.parametrize("done", [1, 2, 3])  # the boundaries are at 1 and 2: just before one, between, behind
def test_resume_on_either_side_of_a_boundary_is_exact(pool: Pool, done: int) -> None:
    whole = pool.run(_train, case=BOUNDARY, start=0, stop=TOTAL, state=None)[0]
    checkpoint = pool.run(_train, case=BOUNDARY, start=0, stop=done, state=None)[0]
    resumed = pool.run(_train, case=BOUNDARY, start=done, stop=TOTAL, state=checkpoint)[0]
    assert _equal(resumed, whole)


def _refused(strategy: sharding.Strategy, changes: dict[str, dict[str, Any]], tie: bool = False) -> str:
    model = toy.Toy()
    if tie:
        model.language_model.layers[1].fc1.weight = model.language_model.layers[0].fc1.weight  # pyright: ignore
    parts = Partition(model, toy.toy_modules(**changes))
    with pytest.raises(UserError) as error:
        sharding.shard(model, mesh.device_mesh(shard=dist.get_world_size(), device="cpu"), parts, strategy=strategy)
    return str(error.value)


def test_what_cannot_be_sharded_is_refused(pool: Pool) -> None:
    unfreezes: dict[str, dict[str, Any]] = {"vision": {"freeze": [Frozen(3), AllTrain()]}}
    assert "never synchronised" in pool.run(_refused, strategy="ddp", changes=unfreezes)[0]
    assert "different FSDP2 units" in pool.run(_refused, strategy="full", changes={}, tie=True)[0]
    stored: dict[str, dict[str, Any]] = {"vision": {"storage": "bf16"}}
    assert "masters in fp32" in pool.run(_refused, strategy="full", changes=stored)[0]
    frozen: dict[str, dict[str, Any]] = {"vision": {"storage": "bf16", "freeze": [Frozen()]}}
    assert "stored in bf16 but computes in fp32" in pool.run(_refused, strategy="ddp", changes=frozen)[0]


def _world_mismatch() -> str:
    with pytest.raises(UserError) as error:
        mesh.device_mesh(shard=5, device="cpu")
    return str(error.value)


def test_another_number_of_processes_is_refused(pool: Pool) -> None:
    assert "built for 5 processes, but 2 were started" in pool.run(_world_mismatch)[0]


def _layout(strategy: sharding.Strategy, reduce: torch.dtype) -> dict[str, Any]:
    frozen: dict[str, Any] = {"dtype": "bf16", "storage": "bf16", "freeze": [Frozen()]}
    model = toy.Toy()
    names = list(model.state_dict())
    parts = Partition(
        model, toy.toy_modules(vision={**frozen, "recompute": "full"}, language={"dtype": "bf16", "recompute": "full"})
    )
    recompute.add_recompute(model, parts)
    sharding.shard(model, mesh.device_mesh(shard=2, device="cpu"), parts, strategy=strategy, reduce=reduce)
    local = {name: p.to_local() if isinstance(p, DTensor) else p for name, p in parts.named_parameters()}
    return {
        "same keys": list(model.state_dict()) == names == [name for name, _ in parts.named_parameters()],
        "elements": sum(tensor.numel() for tensor in local.values()),
        "all": sum(p.numel() for p in model.parameters()),
        "stored": {name: str(tensor.dtype) for name, tensor in local.items()},
        "computes": {name: str(child.compute_dtype) for name, child in model.named_children()},
        "units": sorted(sorted(names)[0].rpartition(".")[0] for names in parts.units.values() if names),
    }


def test_each_process_holds_its_share_in_the_declared_dtypes(pool: Pool) -> None:
    ranks = pool.run(_layout, strategy="full", reduce=torch.float32)
    assert sum(rank["elements"] for rank in ranks) == ranks[0]["all"]
    assert abs(ranks[0]["elements"] - ranks[0]["all"] / 2) < 0.02 * ranks[0]["all"]
    assert ranks[0]["same keys"]
    assert ranks[0]["stored"]["vision_backbone.blocks.0.fc1.weight"] == "torch.bfloat16"
    assert ranks[0]["stored"]["language_model.layers.0.fc1.weight"] == "torch.float32"
    assert ranks[0]["computes"] == {
        "vision_backbone": "torch.bfloat16",
        "projector": "torch.float32",
        "state_projector": "torch.float32",
        "language_model": "torch.bfloat16",
        "action_head": "torch.float32",
    }
    assert len(ranks[0]["units"]) == 4 + 2 + 5


def _tied_inside_one_unit() -> dict[str, float]:
    """A trunk whose output embedding is its input embedding."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(8, 4)
            self.layers = nn.ModuleList([nn.Linear(4, 4)])
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.layers[0](self.embed(ids)).tanh())

    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.language_model = Tied()

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.language_model(ids)

    def run(sharded: bool) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = Root()
        parts = Partition(model, [Module("language", ["*"], lr=0.1, blocks=["language_model.layers.*"])])
        if sharded:
            sharding.shard(model, mesh.device_mesh(shard=2, device="cpu"), parts)
        optimizer = optim.adamw(parts)
        half = [[0, 1], [2, 3]]
        ids = torch.tensor(half[dist.get_rank()] if sharded else half[0] + half[1])
        for _ in range(2):
            model(ids).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return {n: p.full_tensor() if isinstance(p, DTensor) else p.detach() for n, p in model.state_dict().items()}

    ours, plain = run(True), run(False)
    tied = (ours["language_model.embed.weight"] - ours["language_model.head.weight"]).abs().max().item()
    return {"tied": tied, "gap": max((ours[n] - plain[n]).abs().max().item() for n in plain)}


def test_tied_weights_stay_tied(pool: Pool) -> None:
    result = pool.run(_tied_inside_one_unit)[0]
    assert result["tied"] == 0 and result["gap"] < 1e-5


def test_lora_of_a_module_freezes_its_base() -> None:
    parts = _partition(language={"lora": Lora(rank=2, alpha=2.0)})
    assert not parts.trainable("language")
