"""From image features, and from proprioception, to the width of the trunk.

The linear maps are called fc1, fc2, fc3 as in OpenVLA's HF checkpoints.
"""

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Linear maps with exact GELU between them: `widths[0] -> widths[1] -> ...`, named fc1, fc2, ..."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.depth = len(widths) - 1
        for index in range(self.depth):
            setattr(self, f"fc{index + 1}", nn.Linear(widths[index], widths[index + 1]))
        self.activation = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        """[..., widths[0]] -> [..., widths[-1]]; a map [N, C, H, W] is read as H * W tokens."""
        if x.ndim == 4:
            x = x.flatten(2).transpose(1, 2)
        for index in range(self.depth):
            x = getattr(self, f"fc{index + 1}")(x)
            if index + 1 < self.depth:
                x = self.activation(x)
        return x


class SpatialSoftArgmax(nn.Module):
    """Key points of a feature map: where each of `points` filters responds, as expected coordinates (Levine et al. 2016).

    A policy of this size cannot learn to localise from pooled features; with coordinates it can.
    """

    def __init__(self, channels: int, points: int, width: int) -> None:
        super().__init__()
        # Without bias: a constant added to a map does not move its softmax, so it would never receive a gradient.
        self.filters = nn.Conv2d(channels, points, kernel_size=1, bias=False)
        self.temperature = nn.Parameter(torch.empty(1))  # [1], since FSDP2 cannot shard a scalar
        self.linear = nn.Linear(2 * points, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Temperature 0.1; the layers initialise themselves.

        At 1 the softmax of fresh responses is so flat that all key points lie in the middle, and a policy learns without its eyes.
        """
        nn.init.constant_(self.temperature, 0.1)

    def key_points(self, feature_map: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, points, 2]: x then y, each in [-1, 1] from the first to the last column or row."""
        response = self.filters(feature_map)
        height, width = response.shape[-2:]
        weights = torch.softmax(response.flatten(2) / self.temperature, dim=-1).unflatten(-1, (height, width))
        xs = torch.linspace(-1, 1, width, dtype=weights.dtype, device=weights.device)
        ys = torch.linspace(-1, 1, height, dtype=weights.dtype, device=weights.device)
        return torch.stack([(weights.sum(-2) * xs).sum(-1), (weights.sum(-1) * ys).sum(-1)], dim=-1)

    def forward(self, feature_map: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, 1, width]: one token per image."""
        return self.linear(self.key_points(feature_map).flatten(1)).unsqueeze(1)


def build_projector(config: dict, channels: int, width: int) -> nn.Module:
    """The projector of image features with `channels` channels to the trunk's `width`.

    Args:
        config: `{"kind": "linear"}`, `{"kind": "mlp", "layers": n}`, `{"kind": "fusedMlp"}` or
            `{"kind": "spatialSoftArgmax", "points": n}`.
        channels: channels of the (fused) towers.
        width: hidden width of the language model.
    """
    match config["kind"]:
        case "linear":
            return MLP([channels, width])
        case "mlp":
            return MLP([channels, *[width] * config["layers"]])
        case "fusedMlp":
            return MLP([channels, 4 * channels, width, width])
        case "spatialSoftArgmax":
            return SpatialSoftArgmax(channels, config["points"], width)
        case kind:
            raise ValueError(f"Unknown projector {kind!r}: use linear, mlp, fusedMlp or spatialSoftArgmax.")
