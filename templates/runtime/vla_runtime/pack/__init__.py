"""From a checkpoint to a directory that somebody else can load, verified by loading it in a fresh process."""

from .checkpoint import Packable, open_checkpoint, pack_arguments
from .hf import hf
from .lerobot import lerobot

__all__ = ["Packable", "hf", "lerobot", "open_checkpoint", "pack_arguments"]
