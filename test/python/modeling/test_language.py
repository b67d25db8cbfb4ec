"""The trunk against transformers' own models."""

from typing import Any

import pytest
import torch
from small_models import LLAMA
from transformers import AutoModelForCausalLM
from vla_runtime.modeling.language import LanguageModel, additive, language_config, positions, visible

SMALL = {k: v for k, v in LLAMA.items() if k != "model_type"}
MODELS: dict[str, dict[str, Any]] = {
    "llama": SMALL,
    "mistral": {**SMALL, "num_key_value_heads": 2},
    "qwen2": {**SMALL, "num_key_value_heads": 2},
    "qwen3": {**SMALL, "num_key_value_heads": 2, "head_dim": 8},
    "gemma": {**SMALL, "num_key_value_heads": 1, "head_dim": 8},
    "gemma2": {**SMALL, "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8},
    "phi": SMALL,
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 320, "n_positions": 64},
    "opt": {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
}


@pytest.mark.parametrize("model_type", [name for name in MODELS if name != "opt"])
def test_logits_are_those_of_transformers(model_type: str) -> None:
    torch.manual_seed(0)
    config = language_config({"config": {"model_type": model_type, **MODELS[model_type]}})
    attention = "eager" if model_type == "gemma2" else "sdpa"
    trunk = LanguageModel(config, head=True, attention=attention).double().eval()
    reference: Any = AutoModelForCausalLM.from_config(config, attn_implementation=attention).double().eval()
    assert set(reference.state_dict()) == set(trunk.state_dict())
    reference.load_state_dict(trunk.state_dict())
    ids = torch.randint(0, 320, (2, 7))
    valid = torch.ones(2, 7, dtype=torch.bool)
    mask = additive(visible(valid, 7, "causal"), torch.float64)
    with torch.no_grad():
        logits = trunk(mask=mask, position_ids=positions(valid), prompt=ids, logits_at=torch.arange(7).expand(2, -1))
        torch.testing.assert_close(logits, reference(input_ids=ids).logits, rtol=0, atol=1e-9)
        hidden = trunk(mask=mask, position_ids=positions(valid), prompt=ids)
    assert hidden.shape == (2, 7, 32)


@pytest.mark.parametrize("model_type", ["llama", "gemma", "gpt2"])
def test_tied_embeddings_are_one_parameter(model_type: str) -> None:
    values = {**MODELS[model_type], "tie_word_embeddings": True}
    trunk = LanguageModel(language_config({"config": {"model_type": model_type, **values}}), head=True)
    assert trunk.tied and trunk.lm_head is not None and trunk.lm_head.weight is trunk.embeddings.weight
    with torch.device("meta"):
        trunk = LanguageModel(language_config({"config": {"model_type": model_type, **values}}), head=True)
    assert (
        trunk.lm_head is not None
        and trunk.lm_head.weight is trunk.embeddings.weight
        and trunk.embeddings.weight.is_meta
    )


def test_without_head_there_is_no_output_embedding() -> None:
    trunk = LanguageModel(language_config({"config": LLAMA}), head=False)
    assert not any(name.startswith("lm_head") for name in trunk.state_dict())
    mask = torch.zeros(1, 1, 1, 1)
    with pytest.raises(ValueError, match="without an output embedding"):
        trunk(
            mask=mask,
            position_ids=torch.zeros(1, 1).long(),
            prompt=torch.zeros(1, 1).long(),
            logits_at=torch.zeros(1, 1).long(),
        )


def test_spare_tokens_are_appended() -> None:
    assert language_config({"config": LLAMA, "spare_tokens": 256}).vocab_size == 576
    assert LLAMA["vocab_size"] == 320


def test_scaled_logits_are_refused() -> None:
    with pytest.raises(ValueError, match="logits_scaling"):
        language_config({"config": {"model_type": "granite", **SMALL, "logits_scaling": 8.0}})


def test_positions_skip_padding() -> None:
    valid = torch.tensor([[True, True, False, False, True], [True] * 5])
    assert positions(valid).tolist() == [[0, 1, 1, 1, 2], [0, 1, 2, 3, 4]]
