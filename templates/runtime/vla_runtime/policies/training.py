"""Makes a LeRobot policy the `model` of the loop: `model(batch)`, `model.valid_count(batch)`, `model.predict(batch)`."""

from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torchvision.transforms import RandomCrop

from ..errors import UserError
from .batch import PolicyBatch
from .draws import PerSampleDraws
from .losses import losses_of
from .predict import predict_chunk
from .samples import example_batch
from .spec import PolicySpec
from .units import pass_over, trace


def prepare(policy: PreTrainedPolicy, spec: PolicySpec) -> None:
    """Sets the loop's methods on the policy object. Parameters and their names stay LeRobot's. Call it before anything wraps the policy.

    `policy(batch)` returns the sums of the loss's terms [T], `policy.valid_count(batch)` their counts [T], and
    `policy.predict(batch)` normalised actions [B, C, A] from the batch's fixed noise.

    Args:
        policy: what `build_policy` returned.
        spec: its declaration.

    Raises:
        UserError: the policy has batch normalisation that would learn its statistics.
    """
    model: Any = policy
    losses = losses_of(spec.type)
    _settle_batch_norm(policy, spec)
    _crop_by_sample(policy)
    losses.prepare(policy)

    def forward(batch: PolicyBatch) -> Tensor:
        with batch.draws():
            return losses.sums(policy, batch)

    def valid_count(batch: PolicyBatch) -> Tensor:
        return losses.counts(policy, batch)

    def predict(batch: PolicyBatch) -> Tensor:
        with PerSampleDraws.seeded(batch.seeds) if batch.seeds is not None else batch.draws():
            return predict_chunk(policy, batch.tensors, batch.noise)

    model.forward, model.valid_count, model.predict = forward, valid_count, predict
    if losses.uncalled is not None:
        pass_over(policy, [name for name in losses.uncalled if _has(policy, name)])
    else:
        seen = trace(policy, example_batch(spec))
        pass_over(policy, [*seen.uncalled, *seen.entered])
    model.cast_at_borders = True


def _settle_batch_norm(policy: PreTrainedPolicy, spec: PolicySpec) -> None:
    """Statistics over a micro-batch would make each sample's gradient depend on its neighbours, hence on ranks and micro-batches."""
    live = {name: module for name, module in policy.named_modules() if isinstance(module, _BatchNorm)}
    if not live:
        return
    if spec.batch_norm == "refuse":
        more = f" and {len(live) - 1} more" if len(live) > 1 else ""
        group = (
            " or use group normalisation (config: use_group_norm)" if hasattr(policy.config, "use_group_norm") else ""
        )
        raise UserError(
            f"{next(iter(live))}{more} of the policy {spec.type} is batch normalisation that learns its statistics from each "
            f"micro-batch of each rank. Freeze the statistics (batchNorm: 'frozen'){group}."
        )
    for module in live.values():
        module.eval()
        module.train = _stays(module)


def _stays(module: nn.Module) -> Any:
    def train(mode: bool = True) -> nn.Module:
        return module

    return train


def _has(policy: PreTrainedPolicy, name: str) -> bool:
    """Whether the policy as configured has this submodule."""
    return any(other == name for other, _ in policy.named_modules())


class CropBySample(nn.Module):
    """A random crop for each sample: torchvision's draws one for all pictures that it is given at once.

    Pictures are [B x k, 3, H, W] with the sample as the slowest index; the k pictures of a sample are cropped alike.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, pictures: Tensor) -> Tensor:
        """[B x k, 3, H, W] -> [B x k, 3, h, w]."""
        height, width = pictures.shape[-2:]
        h, w = self.size
        if h > height or w > width:
            raise UserError(f"Pictures of {height} x {width} cannot be cropped to {h} x {w}.")
        samples = PerSampleDraws.rows() or pictures.shape[0]
        shares = torch.rand((samples, 2), device="cpu") * torch.tensor([height - h + 1, width - w + 1], device="cpu")
        corners = shares.long().repeat_interleave(pictures.shape[0] // samples, dim=0).tolist()
        return torch.stack(
            [picture[:, top : top + h, left : left + w] for picture, (top, left) in zip(pictures, corners, strict=True)]
        )


def _crop_by_sample(policy: PreTrainedPolicy) -> None:
    for module in list(policy.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, RandomCrop):
                height, width = child.size
                setattr(module, name, CropBySample((height, width)))
