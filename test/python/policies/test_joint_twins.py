"""pi0, pi0.5, SmolVLA and X-VLA under the runtime on two processes against LeRobot's own class on one.

CI runs a few cases by hand and a draw from the whole product (VLA_TEST_SEED chooses it, VLA_TEST_DRAW says how many);
`pytest -m full` runs the product.
"""

import itertools
import os
import random
from typing import Any

import pytest
import tiny
from joint_twins import Case, Result, differences, distributed, reference
from pool import Pool, RemoteError

# fp32 sums in another order; nothing else differs.
EXACT = 1e-6

CHOICES: dict[str, list[Any]] = {
    "kind": list(tiny.TYPES),
    "strategy": ["full", "gradOp", "ddp"],
    "recompute": ["none", "language", "expert", "both"],
    "accumulation": [1, 2],
    "adapt": [False, True],
    "boundary": [False, True],
    "ragged": [True, False],
}
PRODUCT = [
    case
    for values in itertools.product(*CHOICES.values())
    if not ((case := Case(**dict(zip(CHOICES, values, strict=True)))).boundary and case.strategy == "ddp")
]
CHOSEN = [
    Case("pi0"),
    Case("pi0", strategy="gradOp", recompute="both", accumulation=2, adapt=True, boundary=True),
    Case("pi0", strategy="ddp", recompute="expert", ragged=False),
    Case("pi05", recompute="both", boundary=True),
    Case("smolvla", recompute="language", accumulation=2, boundary=True),
    Case("smolvla", adapt=True, recompute="both"),
    Case("xvla", recompute="both", accumulation=2, boundary=True),
]
_REST = [case for case in PRODUCT if case not in CHOSEN]
DRAWN = random.Random(os.environ.get("VLA_TEST_SEED", "0")).sample(_REST, int(os.environ.get("VLA_TEST_DRAW", "3")))


def worst(pool: Pool, case: Case, plain: Result | None = None) -> dict[str, float]:
    ours = pool.run(distributed, case=case)[0]
    return differences(case, ours, plain or reference(case))


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_equals_lerobots_own_class(policy_pool: Pool, case: Case) -> None:
    found = worst(policy_pool, case)
    assert max(found.values()) <= EXACT, found


@pytest.mark.parametrize("case", DRAWN, ids=str)
def test_drawn_case_equals_lerobots_own_class(policy_pool: Pool, case: Case) -> None:
    found = worst(policy_pool, case)
    assert max(found.values()) <= EXACT, found


@pytest.mark.full
@pytest.mark.parametrize("case", PRODUCT, ids=str)
def test_every_case_equals_lerobots_own_class(policy_pool: Pool, case: Case) -> None:
    found = worst(policy_pool, case)
    assert max(found.values()) <= EXACT, found


MUTANTS = [
    Case("pi0", mutant="noise by rank"),
    Case("smolvla", mutant="noise by rank"),
    Case("xvla", mutant="noise by rank"),
    Case("pi05", mutant="gate forgotten"),
    Case("pi0", mutant="padding counted"),
    Case("xvla", mutant="padding counted"),
    Case("pi0", mutant="expert past its hooks"),
    Case("smolvla", mutant="expert past its hooks"),
]


@pytest.mark.parametrize("case", MUTANTS, ids=str)
def test_a_planted_mistake_is_found(policy_pool: Pool, case: Case) -> None:
    try:
        found = worst(policy_pool, case)
    except RemoteError as error:  # a unit that is not gathered
        assert case.mutant == "expert past its hooks", error
        return
    assert max(found.values()) > 1000 * EXACT, f"the suite does not notice: {case.mutant}"
