"""A vision-language-action model composed of towers, projector, language model and action decoder.

One sequence: `[first token] [image tokens per camera] [instruction] [state] | [action queries or action tokens]`.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import DynamicCache

from .batch import Batch
from .construct import parameter_dtype
from .decoders import ActionBins, FlowHead, RegressionHead, flow_point
from .expert import JointExpert
from .language import LanguageModel, additive, language_config, positions, visible
from .projectors import MLP, build_projector
from .tokenization import stop_token
from .vision import VisionBackbone, dead_in_tower, vision_config


@dataclass(frozen=True)
class VLAConfig:
    """The architecture as plain data; `to_json` and `from_json` keep it exactly."""

    cameras: tuple[str, ...]
    """Camera slots in sequence order."""
    vision: list[dict]
    """One entry per tower: source (timm, transformers), name, image_size, output (tokens, map), layer, norm, mean, std, options."""
    projector: dict
    """kind (linear, mlp, fusedMlp, spatialSoftArgmax) and its sizes."""
    language: dict
    """config (of transformers, with model_type) or name and revision; tokenizer (bytes, pretrained); spare_tokens. Optional:
    action_vocabulary (entries below which the action bins end; default all rows), stop_token, attention (sdpa, eager)."""
    action: dict
    """decoder (tokens, regression, flowMatching) and its sizes. Optional for regression: queries (learnable, zero), slots; for
    flowMatching: attention (cross, the default, or joint)."""
    state_dim: int
    """Width of the proprioception; 0 for none."""
    action_dim: int
    fuse: str = "channels"
    """channels or sequence."""
    mask: str = "causal"
    """causal, prefix or full."""
    prompt: str = "{instruction}"
    """Template of the prompt."""
    prompt_tokens: int = 64
    """Padded length of the tokenised prompt."""
    prompt_lower: bool = False
    """Whether the instruction is put into lower case, as OpenVLA does."""
    prompt_trailing_token: int | None = None
    """Token that every prompt must end with; OpenVLA: 29871, the lone space that precedes the actions in training."""
    dtypes: dict = field(default_factory=dict)
    """Compute dtype of each module while training (vision, projector, language, action)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cameras", tuple(self.cameras))
        decoder = self.action["decoder"]
        if decoder not in ("tokens", "regression", "flowMatching"):
            raise ValueError(f"Unknown decoder {decoder!r}: use tokens, regression or flowMatching.")
        attention = self.action.get("attention", "cross")
        if attention not in ("cross", "joint"):
            raise ValueError(f"Unknown attention {attention!r} of the action decoder: use cross or joint.")
        if decoder == "tokens" and self.mask == "full":
            raise ValueError("mask 'full' shows each action token its successors: use causal or prefix with tokens.")
        if "{instruction}" not in self.prompt:
            raise ValueError(f"The prompt {self.prompt!r} does not hold {{instruction}}.")

    @property
    def chunk(self) -> int:
        """Actions per chunk."""
        return self.action["chunk"]

    @property
    def flows(self) -> bool:
        """Whether the decoder is flow matching. Heads are told apart by this, since recompute may have wrapped them."""
        return self.action["decoder"] == "flowMatching"

    @property
    def joint(self) -> bool:
        """Whether an action expert attends to the trunk's keys and values of every depth, and reads the state in its place."""
        return self.action.get("attention") == "joint"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return json.loads(self.to_json())

    def to_json(self) -> str:
        """Canonical JSON: the same configuration gives the same text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "VLAConfig":
        """The inverse of `to_dict`; an unknown key is an error."""
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> "VLAConfig":
        """The inverse of `to_json`."""
        return cls.from_dict(json.loads(text))

    def self_contained(self) -> "VLAConfig":
        """The same architecture with the configurations of pretrained parts written down, for a package that travels alone."""
        values = self.to_dict()
        for tower in values["vision"]:
            if tower["source"] == "transformers":
                tower["config"] = vision_config(tower).to_dict()
        if values["language"].get("config") is None:
            config = language_config({**self.language, "spare_tokens": 0}).to_dict()
            values["language"]["config"] = config
        return VLAConfig.from_dict(values)


class ComposedVLA(nn.Module):
    """The policy. Children: vision_backbone, projector, state_projector, language_model, action_head (not with tokens).

    Activations are cast at each child's border to its compute dtype: the attribute `compute_dtype` of the child where sharding
    has set one (before a forward the parameters may be fp32 shards), else the dtype of its parameters.
    """

    def __init__(self, config: VLAConfig) -> None:
        super().__init__()
        self.config = config
        action, decoder = config.action, config.action["decoder"]
        self.vision_backbone = VisionBackbone(config.vision, config.fuse)
        trunk = language_config(config.language)
        self.language_model = LanguageModel(
            trunk,
            head=decoder == "tokens",
            attention=config.language.get("attention", "sdpa"),
            hands_on=config.joint,
        )
        width = self.language_model.width
        self.projector = build_projector(config.projector, self.vision_backbone.channels, width)
        state_token = config.state_dim > 0 and not config.joint
        self.state_projector = MLP([config.state_dim, width, width]) if state_token else None
        self.action_head: RegressionHead | FlowHead | JointExpert | None = None
        self.bins: ActionBins | None = None
        if decoder == "regression":
            self.action_head = RegressionHead(
                width,
                chunk=action["chunk"],
                action_dim=config.action_dim,
                hidden=action["hidden"],
                blocks=action["blocks"],
                slots=action.get("slots", 1),
                learnable=action.get("queries", "learnable") == "learnable",
            )
        elif config.joint:
            self.action_head = JointExpert(
                self.language_model.config,
                action_dim=config.action_dim,
                state_dim=config.state_dim,
                hidden=action["hidden"],
                mlp=action["mlp"],
                attention=config.language.get("attention", "sdpa"),
            )
        elif decoder == "flowMatching":
            self.action_head = FlowHead(
                width,
                chunk=action["chunk"],
                action_dim=config.action_dim,
                hidden=action["hidden"],
                layers=action["layers"],
                heads=action["heads"],
            )
        else:
            rows = trunk.vocab_size
            self.bins = ActionBins(action["bins"], config.language.get("action_vocabulary", rows))
            self.stop = stop_token(config.language)

    # ------------------------------------------------------------------ borders

    @staticmethod
    def _dtype(child: nn.Module) -> torch.dtype:
        return getattr(child, "compute_dtype", None) or parameter_dtype(child)

    def _observe(self, batch: Batch) -> dict[str, Tensor | None]:
        """Prompt, image tokens and state token, in the trunk's dtype."""
        trunk = self._dtype(self.language_model)
        missing = [camera for camera in self.config.cameras if camera not in batch.images]
        if missing:
            raise ValueError(f"The batch lacks the cameras {missing}; it has {sorted(batch.images)}.")
        images = [batch.images[camera] for camera in self.config.cameras]
        if len({image.shape[2:] for image in images}) > 1 or len({image.dtype for image in images}) > 1:
            size = (self.config.vision[0]["image_size"],) * 2
            images = [self._resized(image, size) for image in images]
        features = self.vision_backbone(torch.cat(images), self._dtype(self.vision_backbone))
        tokens = self.projector(features.to(self._dtype(self.projector)))
        # [cameras * B, T, width] -> [B, cameras * T, width]
        tokens = torch.cat(tokens.to(trunk).chunk(len(images)), dim=1)
        state = None
        if self.config.state_dim and batch.state is None:
            raise ValueError("The model reads proprioception, but the batch has no state.")
        if self.state_projector is not None:
            assert batch.state is not None
            state = self.state_projector(batch.state.to(self._dtype(self.state_projector))).to(trunk).unsqueeze(1)
        return {"prompt": batch.prompt, "images": tokens, "state": state}

    @staticmethod
    def _resized(image: Tensor, size: tuple[int, int]) -> Tensor:
        pixels = image.float() / 255 if image.dtype == torch.uint8 else image
        return F.interpolate(pixels, size=size, mode="bilinear", antialias=True, align_corners=False)

    def _valid(self, batch: Batch, seen: dict[str, Tensor | None], suffix: int) -> tuple[Tensor, int]:
        """bool [B, T] over the whole sequence, and the length of the observation."""

        def ones(length: int) -> Tensor:
            return torch.ones(batch.size, length, dtype=torch.bool, device=batch.prompt.device)

        images, state = seen["images"], seen["state"]
        prefix = [
            batch.prompt_mask[:, :1],
            ones(0 if images is None else images.shape[1]),
            batch.prompt_mask[:, 1:],
            ones(0 if state is None else 1),
        ]
        return torch.cat([*prefix, ones(suffix)], dim=1), sum(part.shape[1] for part in prefix)

    def _trunk(
        self,
        batch: Batch,
        seen: dict[str, Tensor | None],
        queries: Tensor | None = None,
        answer: Tensor | None = None,
        predict: bool = False,
        cache: DynamicCache | None = None,
    ) -> tuple[Any, Tensor]:
        """The trunk over the observation and what follows it. Returns its output and which positions are valid.

        The output is a tensor, or for joint attention the keys and values of each layer.

        With `predict` the output is the logits of what follows the observation and of what follows each token of `answer`.
        """
        suffix = (0 if queries is None else queries.shape[1]) + (0 if answer is None else answer.shape[1])
        valid, prefix = self._valid(batch, seen, suffix)
        at = None
        if predict:  # without state the observation ends with the padding of the prompt: its last token is before that
            index = torch.arange(valid.shape[1], device=valid.device)
            last = (valid[:, :prefix] * index[:prefix]).amax(dim=1, keepdim=True)
            at = torch.cat([last, index[prefix:].expand(batch.size, -1)], dim=1)
        mask = additive(visible(valid, prefix, self.config.mask), self._dtype(self.language_model))
        output = self.language_model(
            mask=mask,
            position_ids=positions(valid),
            queries=queries,
            answer=answer,
            logits_at=at,
            cache=cache,
            **seen,
        )
        return output, valid

    # ------------------------------------------------------------------ training

    def valid_count(self, batch: Batch) -> Tensor:
        """Number of elements of `forward(batch)` that count, an int64 scalar on the batch's device."""
        valid = _given(batch.valid, "valid")
        count = valid.sum() * self.config.action_dim
        return count + valid.all(dim=1).sum() if self.bins is not None else count  # the stop token behind a whole chunk

    def forward(self, batch: Batch) -> Tensor:
        """Losses per element, zero where padded: [B, C, A], or [B, C * A + 1] for tokens (the last is the stop token).

        Their sum divided by the global `valid_count` is the loss.
        """
        actions, valid = _given(batch.actions, "actions"), _given(batch.valid, "valid")
        if self.bins is not None:
            return self._token_losses(batch, actions, valid)
        seen = self._observe(batch)
        if self.config.flows:
            noise, time = _given(batch.noise, "noise"), _given(batch.time, "time")
            context, context_valid = self._trunk(batch, seen)
            work = _at_least_fp32(self._dtype(cast(nn.Module, self.action_head)))
            point, velocity = flow_point(actions.to(work), noise.to(work), time.to(work))
            losses = (self._velocity(batch, point, time.to(work), context, context_valid, valid) - velocity) ** 2
        else:
            predicted = self._regress(batch, seen)
            losses = (predicted - actions.to(predicted.dtype)).abs()
        return losses * valid.unsqueeze(-1)

    def _token_losses(self, batch: Batch, actions: Tensor, valid: Tensor) -> Tensor:
        assert self.bins is not None
        ids = self.bins.encode(actions).flatten(1)  # [B, C * A]
        labels = torch.cat([ids, ids.new_full((batch.size, 1), self.stop)], dim=1)
        counts = torch.cat(
            [valid.repeat_interleave(self.config.action_dim, dim=1), valid.all(dim=1, keepdim=True)], dim=1
        )
        logits, _ = self._trunk(batch, self._observe(batch), answer=ids, predict=True)
        logits = logits.to(_at_least_fp32(logits.dtype))
        losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
        return losses * counts

    def _regress(self, batch: Batch, seen: dict[str, Tensor | None]) -> Tensor:
        head, trunk = cast(RegressionHead, self.action_head), self._dtype(self.language_model)
        slots = head.chunk * head.slots
        if self.config.action.get("queries", "learnable") == "learnable":
            queries = head(None).to(trunk).expand(batch.size, -1, -1)
        else:
            queries = torch.zeros(batch.size, slots, head.width, dtype=trunk, device=batch.prompt.device)
        hidden, _ = self._trunk(batch, seen, queries=queries)
        predicted = head(hidden[:, -slots:].to(self._dtype(head)))
        return predicted.to(_at_least_fp32(predicted.dtype))

    def _velocity(
        self, batch: Batch, point: Tensor, time: Tensor, context: Any, context_valid: Tensor, valid: Tensor
    ) -> Tensor:
        assert self.action_head is not None
        dtype = self._dtype(self.action_head)
        if self.config.joint:
            state = None if batch.state is None else batch.state.to(dtype)
            velocity = self.action_head(point.to(dtype), time, state, context, context_valid, valid)
        else:
            velocity = self.action_head(point.to(dtype), time, context.to(dtype), context_valid, valid)
        return velocity.to(point.dtype)

    # ------------------------------------------------------------------ inference

    @torch.no_grad()
    def predict(self, batch: Batch) -> Tensor:
        """Normalised actions [B, C, A], fp32 (fp64 for a model in fp64). Flow matching starts from `batch.noise`."""
        seen = self._observe(batch)
        if self.bins is not None:
            return self._decode_tokens(batch, seen)
        if self.config.flows:
            context, context_valid = self._trunk(batch, seen)
            x = _given(batch.noise, "noise").to(_at_least_fp32(self._dtype(cast(nn.Module, self.action_head))))
            steps = self.config.action["steps"]
            every = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
            for step in range(steps):  # Euler from t = 1 (noise) to t = 0
                time = torch.full((batch.size,), 1 - step / steps, dtype=x.dtype, device=x.device)
                x = x - self._velocity(batch, x, time, context, context_valid, every) / steps
            return x
        return self._regress(batch, seen)

    def _decode_tokens(self, batch: Batch, seen: dict[str, Tensor | None]) -> Tensor:
        """Greedy decoding of C * A tokens, each the likeliest of those that stand for actions."""
        assert self.bins is not None
        count = self.config.chunk * self.config.action_dim
        cache = DynamicCache(config=self.language_model.config)
        logits, observed = self._trunk(batch, seen, predict=True, cache=cache)
        ids: list[Tensor] = []
        for index in range(count):
            ids.append(logits[:, -1, self.bins.first : self.bins.vocabulary].argmax(-1) + self.bins.first)
            if index + 1 == count:
                break
            valid = torch.cat([observed, torch.ones_like(observed[:, :1]).expand(-1, index + 1)], dim=1)
            logits = self.language_model(
                mask=additive(valid.unsqueeze(1), self._dtype(self.language_model)),
                position_ids=positions(valid)[:, -1:],
                answer=ids[-1].unsqueeze(1),
                logits_at=torch.zeros_like(ids[-1]).unsqueeze(1),
                cache=cache,
            )
        actions = self.bins.decode(torch.stack(ids, dim=1)).unflatten(1, (self.config.chunk, self.config.action_dim))
        return actions.to(_at_least_fp32(self._dtype(self.language_model)))

    # ------------------------------------------------------------------ facts about the parameters

    def dead_parameters(self) -> list[str]:
        """Names of parameters that never receive a gradient: behind the layer that a token tower gives out, or behind the keys and values
        of the trunk's last layer where nothing else of it is read."""
        dead = [f"language_model.{name}" for name in self.language_model.dead_parameters()]
        for index, tower in enumerate(self.config.vision):
            name = self.vision_backbone.tower_name(index)
            prefix = f"vision_backbone.{name}."
            dead += [prefix + suffix for suffix in dead_in_tower(getattr(self.vision_backbone, name), tower)]
        return dead

    def reset_buffers(self) -> None:
        """Gives every buffer that is not saved its constructed value again, on the device of the parameters.

        Needed after `to_empty`, which leaves rubbish in them, and after a cast of the whole model, which rounds them.
        """
        device = next(self.parameters()).device
        with torch.device("meta"):
            fresh = ComposedVLA(self.config)
        saved = fresh.state_dict().keys()
        values = {name: buffer for name, buffer in fresh.named_buffers() if name not in saved}
        for module_name, module in self.named_modules():
            for name in list(module._buffers):
                value = values.get(".".join(filter(None, (plain_name(module_name), name))))
                if value is not None:
                    module._buffers[name] = value.to(device)


def plain_name(name: str) -> str:
    """A parameter's name without what recompute and adapters insert into it."""
    return (
        name.replace("_checkpoint_wrapped_module.", "")
        .replace("._checkpoint_wrapped_module", "")
        .replace(".base_layer", "")
    )


def _at_least_fp32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _given(value: Tensor | None, name: str) -> Tensor:
    if value is None:
        raise ValueError(f"The batch has no {name}.")
    return value
