"""LeRobot's pi0 and pi0.5 at the sizes of a checkpoint, with weights straight from the file."""

import contextlib
import importlib
import io
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from vla_runtime.errors import UserError

from .keys import torch_sizes, with_embedding
from .safetensors_io import TensorFile, differences
from .sizes import Family, Gemma, Sizes


class _ParametersOnMeta(TorchFunctionMode):
    """Parameters get no memory, buffers do: torch's layers draw theirs with `empty`, `zeros` and `ones`."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.empty, torch.zeros, torch.ones):
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def modeling(family: Family) -> ModuleType:
    """LeRobot's module of the family's classes."""
    return importlib.import_module(f"lerobot.policies.{family}.modeling_{family}")


@contextlib.contextmanager
def of_size(family: Family, sizes: Sizes) -> Iterator[None]:
    """LeRobot's classes build a model of these sizes; its configuration alone can only say the published ones."""
    if sizes.published:
        yield
        return
    module = modeling(family)
    names = ("get_gemma_config", "PaliGemmaForConditionalGenerationWithPiGemma", "PiGemmaForCausalLM")
    originals = {name: getattr(module, name) for name in names}
    streams = iter((sizes.language, sizes.expert))

    def gemma(name: str) -> Any:
        chosen: Gemma = next(streams)
        return module.GemmaConfig(
            chosen.width, chosen.depth, chosen.mlp, chosen.heads, chosen.kv_heads, chosen.head_dim
        )

    def paligemma(config: Any) -> nn.Module:
        config.text_config.vocab_size = sizes.vocabulary
        config.image_token_index = sizes.vocabulary
        config.projection_dim = config.vision_config.projection_dim = sizes.language.width
        vision = sizes.vision
        config.vision_config.hidden_size = vision.width
        config.vision_config.num_hidden_layers = vision.depth
        config.vision_config.intermediate_size = vision.mlp
        config.vision_config.num_attention_heads = vision.heads
        config.vision_config.patch_size = vision.patch
        return originals["PaliGemmaForConditionalGenerationWithPiGemma"](config=config)

    def expert(config: Any) -> nn.Module:
        config.vocab_size = sizes.vocabulary
        return originals["PiGemmaForCausalLM"](config=config)

    replacements = dict(zip(names, (gemma, paligemma, expert), strict=True))
    for name, replacement in replacements.items():
        setattr(module, name, replacement)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(module, name, original)


def build(config: Any, sizes: Sizes) -> Any:
    """LeRobot's policy without memory for its parameters.

    Args:
        config: LeRobot's `PI0Config` or `PI05Config`.
        sizes: of the model.
    """
    module = modeling(sizes.family)
    policy_class, core = (
        (module.PI0Policy, module.PI0Pytorch) if sizes.family == "pi0" else (module.PI05Policy, module.PI05Pytorch)
    )
    # The constructor's last step moves the core to a device, which parameters without memory cannot follow.
    with of_size(sizes.family, sizes), _ParametersOnMeta(), patch.object(core, "to", lambda self, device: self):
        policy = policy_class(config)
    homeless = [name for name, buffer in policy.named_buffers() if buffer.is_meta]
    if homeless:
        raise RuntimeError(f"buffers without a value: {homeless[:5]}")
    return policy.eval()


def load_config(directory: Path) -> Any:
    """config.json of a LeRobot policy directory, as LeRobot's own class.

    Raises:
        UserError: it is not there, LeRobot does not take it, or it is of another policy.
    """
    if not (directory / "config.json").is_file():
        raise UserError(f"{directory} is no LeRobot policy directory: it has no config.json.")
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.pi0.configuration_pi0 import PI0Config
    from lerobot.policies.pi05.configuration_pi05 import PI05Config

    try:
        config = PreTrainedConfig.from_pretrained(str(directory))
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"LeRobot does not take {directory / 'config.json'}: {reason}\nIt was written by another release, or is no policy's."
        ) from error
    if not isinstance(config, PI0Config | PI05Config):
        raise UserError(f"{directory} is a policy of type {config.type}; openpi has pi0 and pi05.")
    return config


def load(directory: Path, config: Any, weights: Path | None = None) -> tuple[Any, Sizes]:
    """A policy directory's policy, its parameters mapped from the file: nothing is copied, and only what is used is read.

    LeRobot's own loader prints what does not fit and goes on; here it is an error.

    Args:
        directory: LeRobot's policy directory.
        config: its configuration.
        weights: openpi's `model.safetensors` instead, renamed as LeRobot's loader renames it.

    Raises:
        UserError: names or shapes do not fit.
    """
    from safetensors.torch import load_file

    file = weights or directory / "model.safetensors"
    shapes = {name: entry.shape for name, entry in TensorFile(file).entries.items()}
    sizes = torch_sizes(
        with_embedding(shapes) if weights is None else shapes, str(file), prefix="model." if weights is None else ""
    )
    policy = build(config, sizes)
    # LeRobot's own renaming, which also gives the embedding the value of lm_head where that comes later in the file. It works on numbers
    # that stand for the tensors, since it would copy the largest of them.
    tensors = list(load_file(file).items())
    with contextlib.redirect_stdout(io.StringIO()):
        renamed = policy._fix_pytorch_state_dict_keys(
            {name: torch.tensor(index) for index, (name, _) in enumerate(tensors)}, config
        )
    state = {f"model.{name.removeprefix('model.')}": tensors[int(index)][1] for name, index in renamed.items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in policy.state_dict().items()}
    lines = differences(wanted, {name: tuple(tensor.shape) for name, tensor in state.items()})
    if lines:
        raise UserError("\n".join([f"{file} does not fit LeRobot's {config.type}.", *lines]))
    policy.load_state_dict(state, strict=True, assign=True)
    return policy, sizes
