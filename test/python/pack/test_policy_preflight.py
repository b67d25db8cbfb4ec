"""What the preflight of a policy's project says before anything is allocated."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import huggingface_hub.constants
import packed_specs
import pytest
from vla_runtime.policies.processors import check_processors
from vla_runtime.policies.spec import PolicySpec
from vla_runtime.run import Run


@dataclass
class Rank:
    """What a check of the preflight asks of a run."""

    local_rank: int
    findings: list[str] = field(default_factory=list)


def findings(spec: PolicySpec, local_rank: int = 0) -> list[str]:
    """What one rank notes."""
    rank = Rank(local_rank)
    check_processors(cast(Run, rank), spec)
    return rank.findings


def test_a_tokenizer_that_is_not_at_hand_is_noted_once_per_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    spec = packed_specs.declared("pi0", tmp_path)
    assert findings(spec) == []
    missing = replace(spec, tokenizer=None)
    (said,) = findings(missing)
    assert "cannot make the processors of pi0" in said and "hf download" in said
    assert findings(missing, local_rank=1) == []


def test_a_plugin_that_fails_to_import_is_noted_with_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lerobot_policy_broken.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = replace(packed_specs.declared("pi0", tmp_path), type="broken", plugin="lerobot_policy_broken")
    (said,) = findings(spec)
    assert "a_package_that_nobody_has" in said
