"""LeRobot policy of type `vla_composed`; importing it registers configuration, policy and processors.

`pack.lerobot` copies this folder beside `modeling/` into the plugin that it writes, so that the relative imports hold there too.
"""

from .configuration_vla_composed import VLAComposedConfig
from .modeling_vla_composed import VLAComposedPolicy
from .processor_vla_composed import make_vla_composed_pre_post_processors

__all__ = ["VLAComposedConfig", "VLAComposedPolicy", "make_vla_composed_pre_post_processors"]
