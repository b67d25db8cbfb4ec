"""Runs that were never disturbed, to compare with."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from harness import Project, Settings


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Settings], Project]:
    """The project with these settings, run to its end without a break."""

    @cache
    def make(settings: Settings) -> Project:
        project = Project(tmp_path_factory.mktemp("undisturbed") / "project", settings)
        result = project.launch()
        assert result.status == 0, result.output
        return project

    return make


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A fresh copy with the default settings."""
    return Project(tmp_path / "project")
