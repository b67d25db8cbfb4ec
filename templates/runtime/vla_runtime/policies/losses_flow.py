"""Losses of pi0, pi0.5, SmolVLA and X-VLA, by LeRobot's own model code, element by element."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import UserError
from .batch import PolicyBatch
from .draws import sample_seed
from .joint import join_streams, mark_containers
from .losses import Losses

_TOKENS, _TOKEN_MASK, _STATE, _ACTION = (
    "observation.language.tokens",
    "observation.language.attention_mask",
    "observation.state",
    "action",
)


class FlowMatching(Losses):
    """Squared error of the velocity per valid action element, over the true width of an action, as LeRobot's `forward` makes it.

    LeRobot's pi0 and pi0.5 average over padded actions too; here they count only where the declaration says so, since `batch.valid`
    is what counts.
    """

    terms = ("flow",)

    def prepare(self, policy: PreTrainedPolicy) -> None:
        """Both streams' layers become called modules."""
        join_streams(policy)

    def noise_shape(self, config: Any) -> tuple[int, ...] | None:
        """[chunk, padded width of an action]."""
        return (config.chunk_size, config.max_action_dim)

    def sums(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[1]."""
        losses = self.elements(policy, batch)
        return (losses * batch.valid[..., None]).sum().reshape(1)

    def counts(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[1]: valid action elements."""
        return (batch.valid.sum() * _true_width(policy)).reshape(1)

    def elements(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """Losses [B, C, A] of all actions, padded ones included."""
        one: Any = policy
        inputs: dict[str, Any] = dict(batch.tensors)
        if getattr(policy.config, "adapt_to_pi_aloha", False):  # LeRobot converts in place
            inputs[_STATE] = one._pi_aloha_decode_state(inputs[_STATE].clone())
            inputs[_ACTION] = one._pi_aloha_encode_actions_inv(inputs[_ACTION].clone())
        smol = policy.config.type == "smolvla"
        images, seen = (one.prepare_images if smol else one._preprocess_images)(inputs)
        states = [] if policy.config.type == "pi05" else [one.prepare_state(inputs)]
        actions = one.prepare_action(inputs)
        noise = one.model.sample_noise(actions.shape, actions.device)
        time = one.model.sample_time(actions.shape[0], actions.device)
        losses = one.model.forward(images, seen, inputs[_TOKENS], inputs[_TOKEN_MASK], *states, actions, noise, time)
        return losses[..., : _true_width(policy)]


class XVLA(Losses):
    """The sum of the action space's terms, each LeRobot's own mean over the valid actions.

    Every term of every action space is a mean over the same (sample, action) pairs, so that one count serves them all.
    Times are stratified over the global batch instead of over each rank's: see `stratified_times`.
    """

    terms = ("actions",)

    def prepare(self, policy: PreTrainedPolicy) -> None:
        """The forward stays as it is.

        Raises:
            UserError: the text encoder skips layers at random, each rank others, which would leave ranks waiting for one another.
        """
        encoder: Any = policy.get_submodule("model.vlm.language_model.encoder")
        if encoder.layerdrop > 0:
            raise UserError("florence_config's text_config says encoder_layerdrop > 0: set it to 0.")
        mark_containers(policy)
        # Its input has an fp32 buffer added to it, whatever the weights compute in.
        policy.get_submodule("model.vlm.multi_modal_projector.image_projection").register_forward_pre_hook(_as_weight)

    def sums(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[1]."""
        one: Any = policy
        inputs = one._build_model_inputs(dict(batch.tensors))
        targets = one._prepare_action_targets(dict(batch.tensors))
        space = one.model.action_space
        compute: Callable[[Tensor, Tensor], dict[str, Tensor]] = space.compute_loss
        space.compute_loss = lambda predicted, target: (predicted, target)  # the forward ends in it
        try:
            with _Times(stratified_times(batch.seed, batch.update, batch.positions)):
                predicted, target = one.model(action=targets, **inputs)
        finally:
            del space.compute_loss
        predicted = predicted.to(torch.promote_types(predicted.dtype, torch.float32))
        target = target.to(predicted.dtype)
        if predicted.shape[1] != batch.valid.shape[1]:
            raise UserError(
                f"X-VLA's chunk is {predicted.shape[1]}, but the batch holds {batch.valid.shape[1]} actions."
            )
        count = batch.valid.sum()
        if not count:  # a batch that only keeps ranks in step; a mean over nothing is no number
            return (predicted * 0).sum().reshape(1)
        terms = compute(predicted[batch.valid][None], target[batch.valid][None])
        return (torch.stack(list(terms.values())).sum() * count).reshape(1)

    def counts(self, policy: PreTrainedPolicy, batch: PolicyBatch) -> Tensor:
        """[1]: valid actions (of all their elements together: each term is already a mean over those)."""
        return batch.valid.sum().reshape(1)


def _as_weight(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (inputs[0].to(module.weight.dtype), *inputs[1:])


def _true_width(policy: PreTrainedPolicy) -> int:
    feature: Any = policy.config.action_feature
    return feature.shape[0]


_GOLDEN = (math.sqrt(5) - 1) / 2


def stratified_times(seed: int, update: int, positions: Sequence[int]) -> Tensor:
    """Times in [0, 1) for the samples at these positions of an update's global batch, fp64.

    LeRobot draws one number for a batch and spreads the samples' times evenly from it, so that what a sample gets depends on the size
    of the micro-batch and on its place in it. Here the number belongs to the update and a sample's time is that number plus its
    position times the golden ratio, modulo 1: for itself uniform, and over any run of positions spread about as evenly
    (Kronecker's sequence), whatever the number of ranks and the size of their micro-batches.
    """
    first = sample_seed(seed, update, -1) / 2**63
    return (first + torch.tensor([int(position) for position in positions], dtype=torch.float64) * _GOLDEN) % 1.0


class _Times(TorchFunctionMode):
    """Within: what X-VLA's forward computes as `(torch.rand(1) + torch.arange(B) / B) % (1 - 1e-5)` is the given times [B].

    Raises:
        UserError: (from within) a release of LeRobot that computes them otherwise.
    """

    def __init__(self, times: Tensor) -> None:
        super().__init__()
        self._times = times
        self._due = self._done = False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if error is None and not self._done:
            raise UserError(_CHANGED)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """`torch.rand(1)` becomes the times and the `torch.arange` behind it zeros; everything else is called as it is."""
        named = dict(kwargs or {})
        if self._due and getattr(func, "__name__", "") != "__get__":  # other than reading an attribute
            if func is not torch.arange:
                raise UserError(_CHANGED)
            self._due, self._done = False, True
            return torch.zeros_like(func(*args, **named))
        if func is torch.rand and tuple(args) == (1,) and not self._done:
            self._due = True
            return self._times.to(device=named.get("device"), dtype=named.get("dtype"))
        if func is torch.rand and len(args) == 1 and isinstance(args[0], Sequence) and all(n == 1 for n in args[0][1:]):
            # Whether to skip a path of an image or a layer: like dropout, a matter of the rank.
            with torch._C.DisableTorchFunction():
                return func(*args, **named)
        return func(*args, **named)


_CHANGED = (
    "X-VLA's forward in this version of LeRobot draws its times otherwise than the runtime knows, so that they cannot be given "
    "per sample. Use the pinned version of LeRobot."
)

FLOW_LOSSES: dict[str, Losses] = {
    "pi0": FlowMatching(),
    "pi05": FlowMatching(),
    "smolvla": FlowMatching(),
    "xvla": XVLA(),
}
"""By LeRobot's policy type."""
