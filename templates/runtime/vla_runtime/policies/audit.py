"""Weights of a LeRobot policy from its directory: every tensor accounted for before anything is loaded.

LeRobot's own loaders of pi0 and pi0.5 print what does not fit and go on with random weights, and copy `lm_head` over the token
embedding wherever `embed_tokens` does not come behind it in the file. Here a name that is missing or too much is an error, and each tensor
is read under its own name.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.policies.xvla.modeling_xvla import _is_vendored_florence_state_dict, _remap_vendored_florence_state_dict
from safetensors import safe_open
from torch import Tensor, nn

from ..errors import UserError
from ..partition import saved_name
from ..weights import Layout, WeightAudit, materialise, read_headers
from .joint import dead_parameters

_FILE = "model.safetensors"
_PALIGEMMA = "model.paligemma_with_expert.paligemma"
EMBEDDING, HEAD = f"{_PALIGEMMA}.model.language_model.embed_tokens.weight", f"{_PALIGEMMA}.lm_head.weight"


class PolicyWeights(WeightAudit):
    """The weights of a policy, for the whole policy.

    What may differ between file and policy, by family:

    - pi0, pi0.5: without `embed_tokens` its values are those of `lm_head` (openpi ties them, and its files hold one of the two);
      the output embeddings, which nothing reads, may be missing; keys may stand without the leading `model.`.
    - SmolVLA: the output embedding, which nothing reads, may be missing.
    - X-VLA: the older layout of Florence-2's names, as LeRobot translates it.
    - All: of tied tensors one name is enough; statistics, which LeRobot kept in the weights before 0.4, are not read from there.

    Args:
        source: directory of the policy, its `model.safetensors`, or a hub id.
        revision: of the hub id.
        policy: built, on the meta device or not, sharded or not.
        allow_missing: fnmatch patterns of further names that the file need not hold; not on the meta device.
        allow_unexpected: fnmatch patterns of further names in the file that are left aside.

    Raises:
        UserError: a name that is missing or unexpected, another shape, no such file, an adapter without its base.
    """

    def __init__(
        self,
        source: str,
        revision: str | None,
        policy: PreTrainedPolicy,
        *,
        allow_missing: Sequence[str] = (),
        allow_unexpected: Sequence[str] = (),
    ) -> None:
        super().__init__(
            source, revision, policy, allow_missing=allow_missing, allow_unexpected=allow_unexpected
        )  # which calls the two methods below

    def _entries(self) -> dict[str, Any]:
        if self.directory.is_file():
            return read_headers(self.directory)
        file = self.directory / _FILE
        if not file.is_file():
            adapter = (self.directory / "adapter_config.json").is_file()
            raise UserError(
                f"{self.directory} holds an adapter and no {_FILE}: give the directory of the policy that it was trained on, "
                "with the adapter merged into it."
                if adapter
                else f"{self.directory} holds no {_FILE}, so that it is no directory of a LeRobot policy. "
                "Give the folder that also holds config.json."
            )
        return read_headers(file)

    def _layout(self, model: nn.Module, part: str) -> Layout:
        assert isinstance(model, PreTrainedPolicy)
        return _PolicyLayout(model, [entry.key for entry in self._entries().values()])

    @torch.no_grad()
    def load(self, model: nn.Module, device: torch.device | None = None) -> None:
        """Fills the policy, each process reading only its part of each tensor. Dead parameters that the file lacks become zero.

        Args:
            model: the audited policy, sharded by now. If it is on the meta device it gets memory first.
            device: see `weights.materialise`.
        """
        if any(parameter.is_meta for parameter in model.parameters()):
            materialise(model, device)
            for name, parameter in model.named_parameters():
                saved = saved_name(name)
                if saved is not None and saved not in self.names:
                    parameter.zero_()
        super().load(model, device)


class _PolicyLayout(Layout):
    """The differences that are known to do no harm."""

    def __init__(self, policy: PreTrainedPolicy, keys: Sequence[str]) -> None:
        self.kind = policy.config.type
        self.keys = set(keys)
        self.dead = set(dead_parameters(policy))
        names: dict[Tensor, list[str]] = {}
        for name, tensor in policy.state_dict(keep_vars=True).items():
            names.setdefault(tensor, []).append(saved_name(name) or name)
        self.tied = {name: group for group in names.values() for name in group if len(group) > 1}
        shapes = dict.fromkeys(keys, torch.empty(0, device="meta"))
        self.older = self.kind == "xvla" and _is_vendored_florence_state_dict(shapes)

    def name(self, key: str, wanted: Mapping[str, Tensor]) -> str:
        """The policy's name of a key of the file."""
        old = key.startswith(("normalize_", "unnormalize_"))
        if self.kind in ("pi0", "pi05") and not key.startswith("model.") and not old:
            return f"model.{key}"
        if self.older:
            renamed = _remap_vendored_florence_state_dict({key: torch.empty(0, 0, device="meta")})
            return next(iter(renamed), key)
        return key

    def stand_in(self, name: str) -> str:
        """`lm_head` for the token embedding of pi0 and pi0.5, and for tied tensors the name that is there."""
        if self.kind in ("pi0", "pi05") and name == EMBEDDING:
            return HEAD
        return next((other for other in self.tied.get(name, ()) if other != name), "")

    def transposes(self, key: str) -> bool:
        """The older layout of Florence-2 multiplies by this matrix from the right."""
        return self.older and key == "model.vlm.image_projection"

    def may_miss(self, name: str) -> bool:
        """Output embeddings that nothing reads."""
        return name in self.dead and name.endswith("lm_head.weight")

    def may_surplus(self, name: str) -> bool:
        """Statistics of old files, and what the older layout of Florence-2 keeps for generation."""
        old = name.startswith(("normalize_inputs.", "normalize_targets.", "unnormalize_outputs."))
        return old or (self.older and name == "model.vlm.language_model.final_logits_bias")


def check_stock_loading(file: Path) -> None:
    """Asserts that stock LeRobot will not lose the trained token embedding of pi0 or pi0.5 when it loads this file.

    Its loader copies `lm_head` over `embed_tokens` when it meets `lm_head`, so that the embedding survives only behind it. safetensors
    orders tensors by the width of their dtype, then by name: with one dtype `lm_head` comes first.

    Raises:
        UserError: `lm_head` comes behind an embedding that differs from it.
    """
    with safe_open(file, framework="pt", device="cpu") as reader:
        order = list(reader.offset_keys())
        for embedding in (EMBEDDING, EMBEDDING.removeprefix("model.")):
            head = embedding.replace(EMBEDDING.removeprefix("model."), HEAD.removeprefix("model."))
            if embedding not in order or head not in order or order.index(head) < order.index(embedding):
                continue
            if not torch.equal(reader.get_tensor(head), reader.get_tensor(embedding)):
                raise UserError(
                    f"{file}: LeRobot would copy {head} over the trained {embedding}, because it stands behind it. "
                    "Export both in one dtype."
                )
