"""What this runtime relies on in torch 2.11 and peft, or works around. A newer torch that changes one of these shows it here."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from peft import LoraConfig, inject_adapter_in_model
from pool import Pool
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel


def _mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("shard",))


def _net(layers: int = 2) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))


def _sharded(net: nn.Sequential, **options: Any) -> nn.Sequential:
    for layer in net:
        fully_shard(layer, mesh=_mesh(), **options)
    fully_shard(net, mesh=_mesh(), **options)
    for module in net.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)
    return net


def _error(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _input() -> torch.Tensor:
    return torch.full((2, 4), float(dist.get_rank() + 1))


def _wholly_frozen_unit(refresh: bool) -> str:
    net = _net()
    for parameter in net[0].parameters():
        parameter.requires_grad_(False)
    _sharded(
        net,
        mp_policy=MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
        ),
    )
    net(_input().bfloat16()).sum().backward()
    for parameter in net[0].parameters():
        parameter.requires_grad_(True)
    if refresh:
        net[0].unshard()  # pyright: ignore[reportCallIssue]
        net[0].reshard()  # pyright: ignore[reportCallIssue]
    return _error(lambda: net(_input().bfloat16()).sum().backward())


def test_a_wholly_frozen_bf16_unit_must_be_refreshed_before_it_trains(pool: Pool) -> None:
    assert "grad_dtype" in pool.run(_wholly_frozen_unit, refresh=False)[0]
    assert pool.run(_wholly_frozen_unit, refresh=True) == ["", ""]


def _reduction(factor: float | None, force: bool) -> tuple[str, float]:
    net = _net(1)
    fully_shard(net, mesh=_mesh())
    if factor is not None:
        net.set_gradient_divide_factor(factor)  # pyright: ignore[reportCallIssue]
    net.set_force_sum_reduction_for_comms(force)  # pyright: ignore[reportCallIssue]
    error = _error(lambda: net(_input()).sum().backward())
    bias = net[0].bias.grad
    return error, 0.0 if error else float(bias.full_tensor()[0])  # pyright: ignore


def test_gradients_are_averaged_unless_told_and_gloo_needs_plain_sums(pool: Pool) -> None:
    assert pool.run(_reduction, factor=None, force=True)[0] == ("", 2.0)  # each rank's is 2
    assert "PREMUL_SUM" in pool.run(_reduction, factor=1.0, force=False)[0][0]
    assert pool.run(_reduction, factor=1.0, force=True)[0] == ("", 4.0)


def _ddp_unfrozen_later() -> list[float]:
    net = _net()
    for parameter in net[0].parameters():
        parameter.requires_grad_(False)
    ddp = DistributedDataParallel(net)
    for parameter in net[0].parameters():
        parameter.requires_grad_(True)
    ddp(_input()).sum().backward()
    return [float(layer.weight.grad.sum()) for layer in net]  # pyright: ignore


def test_ddp_does_not_synchronise_what_unfreezes_later(pool: Pool) -> None:
    (first, second), (other_first, other_second) = pool.run(_ddp_unfrozen_later)
    assert second == other_second and first != other_first


def _tied_over_units() -> float:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed = nn.Embedding(4, 4)
            self.head = nn.Linear(4, 4, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids))

    net = Tied()
    fully_shard(net.embed, mesh=_mesh())
    fully_shard(net, mesh=_mesh())
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for module in (net, net.embed):
        module.set_force_sum_reduction_for_comms(True)  # pyright: ignore[reportCallIssue]
    net(torch.tensor([0, 1])).square().sum().backward()
    optimizer.step()
    a, b = net.embed.weight, net.head.weight
    return float((a.full_tensor() - b.full_tensor()).abs().max())  # pyright: ignore


def test_tied_weights_over_two_units_are_untied_in_silence(pool: Pool) -> None:
    assert pool.run(_tied_over_units)[0] > 0


def _unused() -> tuple[bool, bool]:
    net = _sharded(_net())
    net.forward = lambda input: net[1](input)
    net(_input()).sum().backward()
    return net[0].weight.grad is None, hasattr(net, "set_reduce_scatter_unused_params")  # pyright: ignore


def test_an_unused_parameter_has_no_gradient_and_nobody_says_so(pool: Pool) -> None:
    assert pool.run(_unused)[0] == (True, False)


@pytest.mark.parametrize("to_none", [False, True])
def test_only_gradients_set_to_none_stop_a_frozen_weight(to_none: bool) -> None:
    net = _net(1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    optimizer.zero_grad(set_to_none=to_none)
    before = net[0].weight.detach().clone()  # pyright: ignore
    optimizer.step()
    assert torch.equal(before, net[0].weight) == to_none  # pyright: ignore


def test_the_recompute_wrapper_shows_in_parameter_names_but_not_in_the_state_dict() -> None:
    net = _net()
    keys = list(net.state_dict())
    net[0] = checkpoint_wrapper(net[0], checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    assert list(net.state_dict()) == keys
    assert [name for name, _ in net.named_parameters()][0] == "0._checkpoint_wrapped_module.weight"


def _cast_inputs(cast: bool) -> str:
    seen: list[torch.dtype] = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, time: torch.Tensor) -> torch.Tensor:
            seen.append(time.dtype)
            return time * self.weight

    net = Spy()
    fully_shard(net, mesh=_mesh(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, cast_forward_inputs=cast))
    net(torch.linspace(0, 1, 3))
    return str(seen[0])


def test_fsdp_rounds_all_inputs_unless_told(pool: Pool) -> None:
    assert pool.run(_cast_inputs, cast=True)[0] == "torch.bfloat16"
    assert pool.run(_cast_inputs, cast=False)[0] == "torch.float32"


def _early_optimizer() -> bool:
    net = _net(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    fully_shard(net, mesh=_mesh())
    net.set_force_sum_reduction_for_comms(True)  # pyright: ignore[reportCallIssue]
    before = net[0].weight.full_tensor().clone()  # pyright: ignore
    net(_input()).sum().backward()
    optimizer.step()
    return torch.equal(before, net[0].weight.full_tensor())  # pyright: ignore


def test_an_optimizer_built_before_sharding_changes_nothing(pool: Pool) -> None:
    assert pool.run(_early_optimizer)[0]


def test_a_private_generator_inside_a_recomputed_block_gives_wrong_gradients() -> None:
    generator = torch.Generator().manual_seed(0)

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.drawn: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.drawn.append(torch.randn(3, generator=generator))
            return (x * self.weight * self.drawn[-1]).sum()

    net = Noisy()
    wrapped = checkpoint_wrapper(net, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    wrapped(torch.ones(3, requires_grad=True)).backward()
    assert len(net.drawn) == 2
    assert net.weight.grad is not None and torch.equal(net.weight.grad, net.drawn[1])
    assert not torch.equal(net.drawn[0], net.drawn[1])


def test_dropout_inside_a_recomputed_block_is_the_same_twice() -> None:
    torch.manual_seed(0)
    block = checkpoint_wrapper(nn.Dropout(0.5), checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=True)
    x = torch.ones(64, requires_grad=True)
    y = block(x)
    y.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, y.detach())


def _late_adapters() -> bool:
    net = _sharded(_net())
    inject_adapter_in_model(LoraConfig(r=2, target_modules=["0"]), net)
    return any(not isinstance(p, DTensor) for name, p in net.named_parameters() if "lora_" in name)


def test_adapters_injected_after_sharding_are_not_sharded(pool: Pool) -> None:
    assert pool.run(_late_adapters)[0]


def _torch_clipping() -> str:
    sharded, plain = _sharded(_net(1)), _net(1)
    (sharded(_input()).sum() + plain(_input()).sum()).backward()
    return _error(lambda: nn.utils.clip_grad_norm_([*sharded.parameters(), *plain.parameters()], 1.0))


def test_torch_does_not_clip_plain_and_sharded_gradients_together(pool: Pool) -> None:
    assert pool.run(_torch_clipping)[0]


def _mixed_unit(train_both: bool) -> str:
    net = _net()
    net[0].bfloat16()
    for parameter in net[0].parameters():
        parameter.requires_grad_(train_both)
    fully_shard(
        net,
        mesh=_mesh(),
        mp_policy=MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
        ),
    )
    net.set_force_sum_reduction_for_comms(True)  # pyright: ignore[reportCallIssue]
    return _error(lambda: net(_input().bfloat16()).sum().backward())


def test_one_unit_may_hold_a_bf16_base_and_fp32_masters_but_not_train_both(pool: Pool) -> None:
    assert pool.run(_mixed_unit, train_both=False) == ["", ""]
    assert "uniform original parameter dtype" in pool.run(_mixed_unit, train_both=True)[0]


def _refusals() -> dict[str, str]:
    scalar = nn.Module()
    scalar.weight = nn.Parameter(torch.tensor(1.0))
    net = _sharded(_net())
    return {
        "scalar": _error(lambda: fully_shard(scalar, mesh=_mesh())),
        "list": _error(lambda: fully_shard(nn.ModuleList([nn.Linear(2, 2)]), mesh=_mesh())),
        "deepcopy": _error(lambda: copy.deepcopy(net)),
    }


def test_what_fsdp_refuses(pool: Pool) -> None:
    refusals = pool.run(_refusals)[0]
    assert all(refusals.values()), refusals


def _few_rows() -> list[int]:
    net = nn.Linear(3, 1)
    fully_shard(net, mesh=_mesh())
    return [p.to_local().shape[0] for p in net.parameters()]  # pyright: ignore


def test_fewer_rows_than_processes_leave_an_empty_share(pool: Pool) -> None:
    assert pool.run(_few_rows) == [[1, 1], [0, 0]]


def _method(registered: bool) -> str:
    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def predict(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.predict(x)

    net = Policy()
    fully_shard(net, mesh=_mesh())
    if registered:
        register_fsdp_forward_method(net, "predict")
    return _error(lambda: net.predict(_input()))


def test_methods_beside_forward_must_be_registered(pool: Pool) -> None:
    assert "DTensor" in pool.run(_method, registered=False)[0]
    assert pool.run(_method, registered=True) == ["", ""]


def _after_evaluation() -> tuple[bool, bool]:
    """Whether parameters are shards after an evaluation that kept them gathered, before and after `reshard`."""
    net = _net(1)
    fully_shard(net, mesh=_mesh(), reshard_after_forward=False)
    with torch.no_grad():
        net(_input())
    left = isinstance(net[0].weight, DTensor)  # pyright: ignore
    net.reshard()  # pyright: ignore[reportCallIssue]
    return left, isinstance(net[0].weight, DTensor)  # pyright: ignore


def test_an_evaluation_may_leave_parameters_gathered(pool: Pool) -> None:
    assert pool.run(_after_evaluation)[0] == (False, True)


def _called_twice() -> float:
    """One unit called twice in one forward, as a head that gives its queries first: gap of the gradient to the plain module's."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = _net(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(self.inner(x).tanh()).sum()

    net, plain = Twice(), Twice()
    fully_shard(net.inner, mesh=_mesh())
    fully_shard(net, mesh=_mesh())
    for module in (net, net.inner):
        module.set_gradient_divide_factor(1.0)  # pyright: ignore[reportCallIssue]
        module.set_force_sum_reduction_for_comms(True)  # pyright: ignore[reportCallIssue]
    net(_input()).backward()
    for rank in range(dist.get_world_size()):
        plain(torch.full((2, 4), float(rank + 1))).backward()
    ours = net.inner[0].weight.grad
    return float((ours.full_tensor() - plain.inner[0].weight.grad).abs().max())  # pyright: ignore


def test_a_unit_may_be_called_twice(pool: Pool) -> None:
    assert pool.run(_called_twice)[0] < 1e-5


def test_fused_adamw_takes_fp64_on_the_cpu() -> None:
    nets = [_net(1).double() for _ in range(2)]
    for net, fused in zip(nets, (True, False), strict=True):
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1, fused=fused)
        for _ in range(3):
            net(torch.ones(2, 4, dtype=torch.float64)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert (nets[0][0].weight - nets[1][0].weight).abs().max() < 1e-14  # pyright: ignore
