"""Instructions to token ids."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

BYTES_BOS, BYTES_EOS, BYTES_PAD = 256, 257, 258
BYTES_VOCABULARY = 259


def bytes_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer without merges: 256 bytes, then `<s>` 256, `</s>` 257, `<pad>` 258. Any text, no download."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    specials = ["<s>", "</s>", "<pad>"]
    vocabulary.update({special: 256 + index for index, special in enumerate(specials)})
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", padding_side="right"
    )


def write_bytes_tokenizer(directory: Path) -> None:
    """Writes the byte-level tokenizer as a Hugging Face tokenizer directory, readable by `AutoTokenizer`."""
    bytes_tokenizer().save_pretrained(directory)


def load_tokenizer(language: dict, directory: Path | str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of a model.

    Args:
        language: the `language` entry of the model's configuration.
        directory: where a package holds its tokenizer; None takes it from where the language model comes from.
    """
    if directory is not None:
        return AutoTokenizer.from_pretrained(directory)
    if language["tokenizer"] == "bytes":
        return bytes_tokenizer()
    return AutoTokenizer.from_pretrained(language["name"], revision=language.get("revision"))


def stop_token(language: dict) -> int:
    """Id of the token behind the last action token."""
    if language.get("stop_token") is not None:
        return language["stop_token"]
    if language.get("tokenizer") == "bytes":
        return BYTES_EOS
    stop = (language.get("config") or {}).get("eos_token_id")
    if isinstance(stop, list):
        stop = stop[0]
    if stop is None:
        stop = cast(int | None, load_tokenizer(language).eos_token_id)
    if stop is None:
        raise ValueError("The language model names no end token, and `stop_token` is not given.")
    return stop


class PromptTokenizer:
    """Fills the template with an instruction and tokenises it: the beginning token first, right padded to a fixed length.

    Args:
        tokenizer: of the language model.
        template: holds `{instruction}`.
        length: padded length.
        lower: whether the instruction is put into lower case.
        trailing: token that every prompt must end with; appended where it does not (OpenVLA's 29871).
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        template: str,
        length: int,
        *,
        lower: bool = False,
        trailing: int | None = None,
    ) -> None:
        self.tokenizer, self.template, self.length = tokenizer, template, length
        self.lower, self.trailing = lower, trailing
        begin, end = cast(int | None, tokenizer.bos_token_id), cast(int | None, tokenizer.eos_token_id)
        begin = end if begin is None else begin
        if begin is None:
            raise ValueError(
                "The tokenizer has neither a beginning nor an end token; the sequence needs a first token."
            )
        self.begin: int = begin
        pad = cast(int | None, tokenizer.pad_token_id)
        self.pad: int = begin if pad is None else pad

    def text(self, instruction: str) -> str:
        """The prompt of an instruction."""
        return self.template.replace("{instruction}", instruction.lower() if self.lower else instruction)

    def ids(self, instruction: str) -> list[int]:
        """Token ids of the prompt, without padding.

        Raises:
            ValueError: they do not fit, or the instruction is empty.
        """
        if not instruction.strip():
            raise ValueError("The instruction is empty. Every episode needs a task text.")
        ids = [self.begin, *self.tokenizer.encode(self.text(instruction), add_special_tokens=False)]
        if self.trailing is not None and ids[-1] != self.trailing:
            ids.append(self.trailing)
        if len(ids) > self.length:
            raise ValueError(
                f"The prompt of {instruction!r} has {len(ids)} tokens, but prompts are padded to {self.length}. "
                "Raise promptTokens in pipeline.ts, or shorten the instruction or the prompt."
            )
        return ids

    def __call__(self, instructions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids int64 [B, length] and mask bool [B, length]."""
        rows = [self.ids(instruction) for instruction in instructions]
        ids = torch.full((len(rows), self.length), self.pad, dtype=torch.int64)
        mask = torch.zeros(len(rows), self.length, dtype=torch.bool)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = torch.tensor(row)
            mask[index, : len(row)] = True
        return ids, mask
