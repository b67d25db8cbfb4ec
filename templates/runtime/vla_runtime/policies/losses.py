"""Losses of LeRobot's policies as sums and counts, so that neither ranks nor micro-batches nor padding change the gradient.

The loop divides the sums of all ranks and micro-batches by the counts of all of them, term by term, and adds the terms up:
`loss = (sums / global_sum(counts)).sum()`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from .batch import PolicyBatch


class Losses(ABC):
    """The loss of a policy type. Both methods are called with the batch's own random numbers in place (`PolicyBatch.draws`)."""

    terms: ClassVar[tuple[str, ...]]
    """Names of the terms, T of them."""
    uncalled: ClassVar[tuple[str, ...] | None] = ()
    """Modules that LeRobot's code never calls though it reads parameters in them; None: `prepare` finds out."""

    @abstractmethod
    def sums(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[T]: for each term the sum over this micro-batch of what counts, times the term's weight."""

    @abstractmethod
    def counts(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """int64 [T]: of how many elements (or samples) each sum is made, in the sums' order. Reads no parameter."""

    def noise_shape(self, config: Any) -> tuple[int, ...] | None:
        """Shape for one sample of the `noise` that `predict_action_chunk` starts from; None where it takes none."""
        return None

    def prepare(self, policy: PreTrainedPolicy) -> None:
        """Changes of the policy object that the loss needs, before it is sharded. Parameters and their names stay."""
        return None


class ValidCount(Losses):
    """LeRobot's own scalar loss, weighted by the number of valid action elements.

    Exact where that scalar is the mean over these elements. Otherwise (a policy that averages over samples, or over padding too)
    micro-batches are weighted by what they hold, and the gradient depends on the split of a batch a little; the plan says so.
    """

    terms = ("loss",)
    uncalled = None

    def sums(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[1]."""
        with _WideLosses():
            result: Any = type(policy).forward(policy, dict(batch.tensors))
        loss = result[0] if isinstance(result, tuple) else result
        count = self.counts(policy, batch)
        # A batch that only keeps ranks in step has nothing valid, and a mean over nothing is not a number.
        return torch.where(count > 0, loss.reshape(1) * count, loss.new_zeros(1))

    def counts(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[1]."""
        return _elements(batch).reshape(1)


class Act(Losses):
    """L1 per valid action element, and the KL divergence of the latent per sample (LeRobot's `ACTPolicy.forward`).

    Outside of training ACT encodes no actions, so that the second term is zero.
    """

    terms = ("l1", "kl")
    uncalled = (
        "model.vae_encoder_cls_embed",
        "model.encoder_1d_feature_pos_embed",
        "model.decoder_pos_embed",
    )

    def sums(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[2], the second with LeRobot's `kl_weight`."""
        config: Any = policy.config
        inputs = dict(batch.tensors)
        if config.image_features:
            inputs["observation.images"] = [inputs[key] for key in config.image_features]
        model: Any = policy.model
        predicted, (mean, log_variance) = model(inputs)
        l1 = ((inputs["action"] - predicted).abs() * batch.valid[..., None]).sum()
        if log_variance is None:
            return torch.stack([l1, torch.zeros_like(l1)])
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(-1)
        return torch.stack([l1, config.kl_weight * (divergence * batch.counted).sum()])

    def counts(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[2]: valid elements, samples."""
        return torch.stack([_elements(batch), batch.counted.sum()])


class Diffusion(ValidCount):
    """Squared error of the prediction per valid action element.

    LeRobot's own loss is that mean: `policy_config` sets its `do_mask_loss_for_padding` to what the declaration says of padding.
    """

    terms = ("mse",)
    uncalled = ("diffusion",)

    def noise_shape(self, config: Any) -> tuple[int, ...] | None:
        """[horizon, A]."""
        return (config.horizon, config.action_feature.shape[0])


LOSSES: dict[str, Losses] = {"act": Act(), "diffusion": Diffusion()}
"""By LeRobot's policy type; losses_flow.py has those with flow matching, and types that are in neither have `ValidCount`."""


def losses_of(policy_type: str) -> Losses:
    """The losses of a policy type."""
    from .losses_flow import FLOW_LOSSES

    return {**LOSSES, **FLOW_LOSSES}.get(policy_type) or ValidCount()


class _WideLosses(TorchFunctionMode):
    """Within: torch's losses are computed in fp32 at least, whatever dtype a head predicts in, as autocast has it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Widens what a loss is made of; everything else is called as it is."""
        named = dict(kwargs or {})
        if func in _TORCH_LOSSES:
            args, named = tree_map(_widened, (tuple(args), named))
        return func(*args, **named)


_TORCH_LOSSES = {
    functional.mse_loss,
    functional.l1_loss,
    functional.smooth_l1_loss,
    functional.huber_loss,
    functional.cross_entropy,
    functional.binary_cross_entropy,
    functional.binary_cross_entropy_with_logits,
    functional.nll_loss,
    functional.kl_div,
}


def _widened(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.to(torch.promote_types(value.dtype, torch.float32)) if floating else value


def _elements(batch: PolicyBatch) -> Tensor:
    return batch.valid.sum() * batch.action_dim
