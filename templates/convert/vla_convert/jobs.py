"""What is handed to the process that verifies a conversion."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """What is compared.

    Attributes:
        directory: LeRobot's policy directory.
        cameras: openpi's camera -> LeRobot's feature.
        openpi: the checkpoint of openpi's on the other side.
        reference: a stored batch with the original's actions; None: a fixed batch through both.
        norm_stats: openpi's statistics.
        carried: the tokenizer travels along, so the whole preprocessor is run.
        openpi_is_new: openpi's side is what was written.
    """

    directory: str
    cameras: dict[str, str]
    openpi: str
    reference: str | None
    norm_stats: str
    carried: bool
    openpi_is_new: bool


@dataclass(frozen=True)
class RenamedJob:
    """A conversion that changes names alone: every bit has to be where it was."""

    source_layout: str
    source: str
    target_layout: str
    target: str
