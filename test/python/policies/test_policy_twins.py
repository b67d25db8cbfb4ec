"""LeRobot's policies under the runtime on two processes against plain PyTorch with LeRobot's own loss on one."""

import pytest
from policy_twins import EXACT, Case, differences, distributed, reference
from pool import Pool

CASES = [
    Case("act"),
    Case("act", accumulation=3, recompute="full", boundary=True),
    Case("act", strategy="ddp", accumulation=3),
    Case("diffusion", strategy="gradOp", accumulation=3, boundary=True),
    Case("diffusion", recompute="full", padding="counted"),
    Case("diffusion", accumulation=3, cropped=True),
    Case("multi_task_dit"),
]
MUTANTS = [
    Case("act", mutant="noise by rank"),
    Case("act", mutant="noise of the first update"),
    Case("act", mutant="padding counted"),
    Case("act", mutant="one denominator"),
    Case("diffusion", mutant="noise by rank"),
    Case("diffusion", mutant="padding counted"),
    Case("diffusion", mutant="gradients averaged"),
]


def worst(pool: Pool, case: Case) -> dict[str, float]:
    plain = reference(case)
    ours = pool.run(distributed, case=case)[0]
    return differences(case, ours, plain)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_plain_pytorch(policy_pool: Pool, case: Case) -> None:
    found = worst(policy_pool, case)
    assert max(found.values()) <= EXACT, found


@pytest.mark.parametrize("case", MUTANTS, ids=str)
def test_a_planted_mistake_is_found(policy_pool: Pool, case: Case) -> None:
    found = worst(policy_pool, case)
    assert max(found.values()) > 1000 * EXACT, f"the suite does not notice: {case.mutant}"
