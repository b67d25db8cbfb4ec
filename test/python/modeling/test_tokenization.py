"""Prompts."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from vla_runtime.modeling.tokenization import (
    BYTES_VOCABULARY,
    PromptTokenizer,
    bytes_tokenizer,
    load_tokenizer,
    stop_token,
    write_bytes_tokenizer,
)

TEXTS = [
    "Reach a goal position",
    "naïve Ünïcode — 机器人 🤖",
    "a\tb\n  c",
    "quotes \" ' $(x) `y` \\",
    "<s> in the text",
]


def test_the_byte_tokenizer_gives_bytes_and_reads_any_text_back(tmp_path: Path) -> None:
    write_bytes_tokenizer(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    ours = bytes_tokenizer()
    for text in TEXTS:
        ids = ours.encode(text, add_special_tokens=False)
        assert ids == read.encode(text, add_special_tokens=False)
        if "<s>" not in text:
            assert len(ids) == len(text.encode())
        assert ours.decode(ids) == text
    assert len(ours) == BYTES_VOCABULARY == 259
    assert (ours.bos_token_id, ours.eos_token_id, ours.pad_token_id) == (256, 257, 258)
    assert (read.bos_token_id, read.eos_token_id, read.pad_token_id) == (256, 257, 258)
    assert sorted(ours.encode(bytes(range(128)).decode(), add_special_tokens=False)) == sorted(
        {i for c in range(128) for i in ours.encode(chr(c), add_special_tokens=False)}
    )


def test_prompts_begin_with_the_first_token_and_are_right_padded() -> None:
    prompts = PromptTokenizer(bytes_tokenizer(), "do {instruction}?", 12)
    ids, mask = prompts(["it", "that"])
    assert ids[:, 0].tolist() == [256, 256]
    assert mask.sum(1).tolist() == [1 + 6, 1 + 8]
    assert ids[0, 7:].tolist() == [258] * 5 and not mask[0, 7:].any()
    assert bytes_tokenizer().decode(ids[1, 1:9]) == "do that?"


def test_openvlas_rules_lower_case_and_the_trailing_token() -> None:
    prompts = PromptTokenizer(bytes_tokenizer(), "{instruction}", 12, lower=True, trailing=42)
    ids = prompts.ids("Pick UP")
    assert prompts.text("Pick UP") == "pick up" and ids[-1] == 42
    letter = bytes_tokenizer().encode("p", add_special_tokens=False)[0]
    assert PromptTokenizer(bytes_tokenizer(), "{instruction}", 12, trailing=letter).ids("up")[-2:] != [letter, letter]


def test_braces_in_an_instruction_stay_what_they_are() -> None:
    prompts = PromptTokenizer(bytes_tokenizer(), "do {instruction} {now}", 60)
    assert prompts.text("{instruction} {0}") == "do {instruction} {0} {now}"


def test_what_does_not_fit_is_refused() -> None:
    prompts = PromptTokenizer(bytes_tokenizer(), "{instruction}", 5)
    with pytest.raises(ValueError, match=r"'too long' has 9 tokens, but prompts are padded to 5.*promptTokens"):
        prompts(["too long"])
    with pytest.raises(ValueError, match="empty"):
        prompts(["  "])


def test_the_first_token_of_a_tokenizer_without_one_is_its_end_token() -> None:
    raw = Tokenizer(models.WordLevel({"a": 0, "<end>": 1, "<unk>": 2}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", unk_token="<unk>")
    ids, mask = PromptTokenizer(tokenizer, "{instruction}", 4)(["a"])
    assert ids[0, :2].tolist() == [1, 0] and mask[0].tolist() == [True, True, False, False]
    nothing = PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>")
    with pytest.raises(ValueError, match="needs a first token"):
        PromptTokenizer(nothing, "{instruction}", 4)


def test_where_the_tokenizer_and_the_stop_token_come_from(tmp_path: Path) -> None:
    write_bytes_tokenizer(tmp_path)
    assert len(load_tokenizer({"tokenizer": "bytes"})) == 259
    assert len(load_tokenizer({"tokenizer": "pretrained", "name": "unused"}, tmp_path)) == 259
    assert len(load_tokenizer({"tokenizer": "pretrained", "name": str(tmp_path)})) == 259
    assert stop_token({"tokenizer": "bytes"}) == 257
    assert stop_token({"tokenizer": "bytes", "stop_token": 2}) == 2
    assert stop_token({"tokenizer": "pretrained", "config": {"eos_token_id": [7, 8]}}) == 7
    assert stop_token({"tokenizer": "pretrained", "name": str(tmp_path)}) == 257
