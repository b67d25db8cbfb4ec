"""A declaration with a pretrained policy takes over the fields of its configuration that it says nothing of."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import small_specs
from vla_runtime.errors import UserError
from vla_runtime.policies.spec import build_policy, policy_config


def test_fields_of_the_pretrained_policy_stand_unless_the_declaration_says_otherwise(tmp_path: Path) -> None:
    trained = small_specs.act(config={"dim_feedforward": 48, "dropout": 0.25})
    build_policy(trained).save_pretrained(tmp_path)
    spec = replace(trained, config={"dropout": 0.5}, pretrained=str(tmp_path))
    config = policy_config(spec, device="cpu")
    assert (config.dim_feedforward, config.dropout) == (48, 0.5)
    assert config.chunk_size == policy_config(trained, device="cpu").chunk_size
    assert config.pretrained_path is None


def test_a_pretrained_policy_of_another_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"type": "pi05"}))
    with pytest.raises(UserError, match="of type 'pi05', the declaration says 'act'"):
        policy_config(replace(small_specs.act(), pretrained=str(tmp_path)), device="cpu")


def test_a_pretrained_policy_without_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the configuration of the pretrained policy"):
        policy_config(replace(small_specs.act(), pretrained=str(tmp_path)), device="cpu")
