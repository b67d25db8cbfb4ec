"""Sizes of a pi0 or pi0.5 model, as its tensors show them."""

from dataclasses import dataclass
from typing import Literal

from vla_runtime.errors import UserError

Family = Literal["pi0", "pi05"]
CAMERAS = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
"""openpi's cameras, in the order in which the model sees them."""


@dataclass(frozen=True)
class Gemma:
    """A Gemma stream."""

    width: int
    depth: int
    mlp: int
    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class Vision:
    """The SigLIP tower."""

    width: int
    depth: int
    mlp: int
    heads: int
    patch: int
    patches: int

    @property
    def image(self) -> int:
        """Side of the square picture in pixels."""
        return self.patch * round(self.patches**0.5)


GEMMA_2B = Gemma(2048, 18, 16_384, 8, 1, 256)
GEMMA_300M = Gemma(1024, 18, 4096, 8, 1, 256)
VARIANTS = {"gemma_2b": GEMMA_2B, "gemma_300m": GEMMA_300M}
SO400M = Vision(1152, 27, 4304, 16, 14, 256)
VOCABULARY = 257_152


@dataclass(frozen=True)
class Sizes:
    """Everything that decides the shapes of a model's tensors.

    Attributes:
        family: pi0 has a state token and a time MLP over the actions; pi0.5 modulates the expert's norms by time.
        vocabulary: rows of the embedding.
        action_dim: padded width of actions.
        state_dim: padded width of the state; None for pi0.5, where the state is text.
    """

    family: Family
    language: Gemma
    expert: Gemma
    vision: Vision
    vocabulary: int
    action_dim: int
    state_dim: int | None

    @property
    def published(self) -> bool:
        """Whether LeRobot's configuration can say these sizes."""
        known = self.language in VARIANTS.values() and self.expert in VARIANTS.values()
        tower = self.vision.__class__(**{**vars(self.vision), "patches": SO400M.patches}) == SO400M
        return known and tower and self.vocabulary == VOCABULARY


def variant(gemma: Gemma) -> str:
    """The name of a Gemma stream in LeRobot's and openpi's configurations.

    Raises:
        UserError: it has none.
    """
    for name, known in VARIANTS.items():
        if known == gemma:
            return name
    raise UserError(f"Neither LeRobot nor openpi has a name for a Gemma of these sizes: {gemma}.")


def full_size(family: Family) -> Sizes:
    """The published models: 3,238,048,528 parameters (pi0), 3,353,433,872 (pi0.5)."""
    return Sizes(family, GEMMA_2B, GEMMA_300M, SO400M, VOCABULARY, 32, 32 if family == "pi0" else None)
