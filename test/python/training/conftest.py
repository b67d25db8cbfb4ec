"""The pool of processes that all distributed tests of this folder share."""

from collections.abc import Iterator

import pytest
from pool import Pool


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Two gloo processes, started with the first task."""
    processes = Pool(2)
    yield processes
    processes.close()
