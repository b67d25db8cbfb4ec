"""A policy that LeRobot does not know: importing this package registers its type, `padded`."""

from .configuration_padded import PaddedConfig
from .modeling_padded import PaddedPolicy
from .processor_padded import make_padded_pre_post_processors

__all__ = ["PaddedConfig", "PaddedPolicy", "make_padded_pre_post_processors"]
