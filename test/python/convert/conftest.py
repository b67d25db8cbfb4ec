"""Conversions that several tests look at."""

import os
import shutil
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

from openpi_fixtures import FAMILIES, FIXTURES, Converted


@pytest.fixture(scope="session", params=FAMILIES)
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Each family, converted once with the actions that openpi's JAX code returned."""
    return Converted(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def pi0_copy(tmp_path: Path) -> Path:
    """A copy of the pi0 fixture, to be damaged."""
    return Path(shutil.copytree(FIXTURES / "pi0" / "7", tmp_path / "7"))
