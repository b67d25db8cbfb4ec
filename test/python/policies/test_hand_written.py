"""Modules that a user wrote by hand for a policy that the runtime knows nothing of: sharded right, and in dtypes of their own."""

import pytest
import torch
from hand_written import distributed, reference
from pool import Pool, RemoteError
from torch import Tensor


def difference(ours: dict[str, Tensor], plain: dict[str, Tensor]) -> float:
    """Relative norm of the difference of all gradients."""
    assert ours.keys() == plain.keys()
    off = sum(float((ours[name] - plain[name]).square().sum()) for name in plain) ** 0.5
    return off / sum(float(gradient.square().sum()) for gradient in plain.values()) ** 0.5


@pytest.mark.parametrize("strategy", ["full", "gradOp", "ddp"])
def test_a_part_that_others_call_is_a_unit_of_its_own(policy_pool: Pool, strategy: str) -> None:
    """The policy calls `encoder.embed` itself, before it calls `encoder`."""
    gradients, units = policy_pool.run(distributed, encoder="fp32", rest="fp32", strategy=strategy)[0]
    assert difference(gradients, reference()) <= 1e-6
    if strategy != "ddp":
        assert set(units) == {"", "encoder.embed", *(f"encoder.layers.{i}" for i in range(3)), "state", "head"}


def test_one_unit_around_both_is_found(policy_pool: Pool) -> None:
    with pytest.raises(RemoteError):
        policy_pool.run(distributed, encoder="fp32", rest="fp32", strategy="full", unmarked=True)


@pytest.mark.parametrize(("encoder", "rest"), [("bf16", "fp32"), ("fp32", "bf16"), ("bf16", "bf16")])
@pytest.mark.parametrize("strategy", ["full", "ddp"])
def test_each_module_computes_in_its_own_dtype(policy_pool: Pool, strategy: str, encoder: str, rest: str) -> None:
    """Inputs are cast at the modules' borders; what bf16 costs is well below what a wrong gradient would be off by."""
    gradients, _ = policy_pool.run(distributed, encoder=encoder, rest=rest, strategy=strategy)[0]
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
    assert 1e-6 < difference(gradients, reference()) <= 0.03
