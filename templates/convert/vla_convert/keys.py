"""From openpi's leaves to LeRobot's tensors.

openpi stacks a transformer's layers on axis 0 of one leaf (27 of SigLIP, 18 of Gemma); LeRobot has a tensor for each. Derived from
openpi's Flax modules (src/openpi/models/{pi0,gemma,siglip,lora}.py) and LeRobot's classes, and held by a comparison of actions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from vla_runtime.errors import UserError

from .safetensors_io import differences
from .sizes import Family, Gemma, Sizes, Vision

Shape = tuple[int, ...]

_PAIR = "model.paligemma_with_expert"
_VISION = f"{_PAIR}.paligemma.model.vision_tower.vision_model"
EMBEDDING = f"{_PAIR}.paligemma.model.language_model.embed_tokens.weight"
HEAD = f"{_PAIR}.paligemma.lm_head.weight"
EXPERT_HEAD = f"{_PAIR}.gemma_expert.lm_head.weight"
"""Dead: the expert's output goes to `action_out_proj`. LeRobot's class has it, openpi's JAX model does not."""


def _copy(x: Tensor) -> Tensor:
    return x


def _transpose(x: Tensor) -> Tensor:
    return x.T


def _convolution(x: Tensor) -> Tensor:
    """[h, w, in, out] -> [out, in, h, w]"""
    return x.permute(3, 2, 0, 1)


def _first(x: Tensor) -> Tensor:
    return x[0]


def _flat(x: Tensor) -> Tensor:
    return x.reshape(-1)


def _into_heads(x: Tensor) -> Tensor:
    """SigLIP's [width, heads, head] -> [heads * head, width]"""
    return x.reshape(x.shape[0], -1).T


def _out_of_heads(x: Tensor) -> Tensor:
    """[heads, head, width] -> [width, heads * head]"""
    return x.reshape(-1, x.shape[-1]).T


def _gemma_heads(x: Tensor) -> Tensor:
    """Gemma's [heads, width, head] -> [heads * head, width]"""
    return x.permute(0, 2, 1).reshape(-1, x.shape[1])


@dataclass(frozen=True)
class Source:
    """Where a tensor of LeRobot's comes from.

    Attributes:
        leaf: openpi's leaf, without the trailing `value`.
        operation: from the layer (or the part of it) to the tensor.
        layer: index on the leaf's first axis; None where the leaf is not stacked.
        part: index on the layer's first axis (key and value, gate and up); None where the layer is one matrix.
    """

    leaf: str
    operation: Callable[[Tensor], Tensor]
    layer: int | None = None
    part: int | None = None

    def take(self, layer: Tensor) -> Tensor:
        """The tensor, from its layer of the leaf (the whole leaf where it is not stacked)."""
        return self.operation(layer if self.part is None else layer[self.part])


@dataclass(frozen=True)
class Zeros:
    """The rule for a tensor that nothing reads and that openpi does not have."""

    shape: Shape


def leaf_shapes(sizes: Sizes) -> dict[str, Shape]:
    """Every leaf of a JAX checkpoint's `params`: 50 for pi0, 51 for pi0.5."""
    vision, language, expert = sizes.vision, sizes.language, sizes.expert
    d, n = vision.width, vision.depth
    block = "PaliGemma/img/Transformer/encoderblock"
    attention = f"{block}/MultiHeadDotProductAttention_0"
    head = d // vision.heads
    shapes: dict[str, Shape] = {
        "PaliGemma/img/embedding/kernel": (vision.patch, vision.patch, 3, d),
        "PaliGemma/img/embedding/bias": (d,),
        "PaliGemma/img/pos_embedding": (1, vision.patches, d),
        "PaliGemma/img/Transformer/encoder_norm/scale": (d,),
        "PaliGemma/img/Transformer/encoder_norm/bias": (d,),
        "PaliGemma/img/head/kernel": (d, language.width),
        "PaliGemma/img/head/bias": (language.width,),
        f"{block}/MlpBlock_0/Dense_0/kernel": (n, d, vision.mlp),
        f"{block}/MlpBlock_0/Dense_0/bias": (n, vision.mlp),
        f"{block}/MlpBlock_0/Dense_1/kernel": (n, vision.mlp, d),
        f"{block}/MlpBlock_0/Dense_1/bias": (n, d),
        f"{attention}/out/kernel": (n, vision.heads, head, d),
        f"{attention}/out/bias": (n, d),
        "PaliGemma/llm/embedder/input_embedding": (sizes.vocabulary, language.width),
    }
    for norm in ("LayerNorm_0", "LayerNorm_1"):
        shapes |= {f"{block}/{norm}/scale": (n, d), f"{block}/{norm}/bias": (n, d)}
    for name in ("query", "key", "value"):
        shapes |= {
            f"{attention}/{name}/kernel": (n, d, vision.heads, head),
            f"{attention}/{name}/bias": (n, vision.heads, head),
        }
    for gemma, suffix in ((language, ""), (expert, "_1")):
        w, depth = gemma.width, gemma.depth
        layers = "PaliGemma/llm/layers"
        shapes |= {
            f"{layers}/attn/q_einsum{suffix}/w": (depth, gemma.heads, w, gemma.head_dim),
            f"{layers}/attn/kv_einsum{suffix}/w": (depth, 2, gemma.kv_heads, w, gemma.head_dim),
            f"{layers}/attn/attn_vec_einsum{suffix}/w": (depth, gemma.heads, gemma.head_dim, w),
            f"{layers}/mlp{suffix}/gating_einsum": (depth, 2, w, gemma.mlp),
            f"{layers}/mlp{suffix}/linear": (depth, gemma.mlp, w),
        }
        adaptive = sizes.family == "pi05" and suffix == "_1"
        for norm, stack in (("layers/pre_attention_norm", depth), ("layers/pre_ffw_norm", depth), ("final_norm", 0)):
            name, lead = f"PaliGemma/llm/{norm}{suffix}", (stack,) if stack else ()
            if adaptive:
                shapes |= {f"{name}/Dense_0/kernel": (*lead, w, 3 * w), f"{name}/Dense_0/bias": (*lead, 3 * w)}
            else:
                shapes[f"{name}/scale"] = (*lead, w)
    for name, (given, wanted) in _projections(sizes).items():
        shapes |= {f"{name}/kernel": (given, wanted), f"{name}/bias": (wanted,)}
    return shapes


def _projections(sizes: Sizes) -> dict[str, tuple[int, int]]:
    w = sizes.expert.width
    shapes = {"action_in_proj": (sizes.action_dim, w), "action_out_proj": (w, sizes.action_dim)}
    if sizes.family == "pi05":
        return shapes | {"time_mlp_in": (w, w), "time_mlp_out": (w, w)}
    assert sizes.state_dim is not None
    return shapes | {
        "state_proj": (sizes.state_dim, w),
        "action_time_mlp_in": (2 * w, w),
        "action_time_mlp_out": (w, w),
    }


def sources(sizes: Sizes) -> dict[str, Source | Zeros]:
    """Every tensor of LeRobot's policy, with the leaf that it comes from or the rule that gives it."""
    found: dict[str, Source | Zeros] = {}

    def dense(
        target: str,
        leaf: str,
        layer: int | None = None,
        kernel: Callable[[Tensor], Tensor] = _transpose,
        bias: Callable[[Tensor], Tensor] = _copy,
    ) -> None:
        found[f"{target}.weight"] = Source(f"{leaf}/kernel", kernel, layer)
        found[f"{target}.bias"] = Source(f"{leaf}/bias", bias, layer)

    def layer_norm(target: str, leaf: str, layer: int | None = None) -> None:
        found[f"{target}.weight"] = Source(f"{leaf}/scale", _copy, layer)
        found[f"{target}.bias"] = Source(f"{leaf}/bias", _copy, layer)

    dense(f"{_VISION}.embeddings.patch_embedding", "PaliGemma/img/embedding", kernel=_convolution)
    found[f"{_VISION}.embeddings.position_embedding.weight"] = Source("PaliGemma/img/pos_embedding", _first)
    block = "PaliGemma/img/Transformer/encoderblock"
    for i in range(sizes.vision.depth):
        target = f"{_VISION}.encoder.layers.{i}"
        layer_norm(f"{target}.layer_norm1", f"{block}/LayerNorm_0", i)
        layer_norm(f"{target}.layer_norm2", f"{block}/LayerNorm_1", i)
        dense(f"{target}.mlp.fc1", f"{block}/MlpBlock_0/Dense_0", i)
        dense(f"{target}.mlp.fc2", f"{block}/MlpBlock_0/Dense_1", i)
        attention = f"{block}/MultiHeadDotProductAttention_0"
        for name, short in (("query", "q"), ("key", "k"), ("value", "v")):
            dense(f"{target}.self_attn.{short}_proj", f"{attention}/{name}", i, _into_heads, _flat)
        dense(f"{target}.self_attn.out_proj", f"{attention}/out", i, _out_of_heads)
    layer_norm(f"{_VISION}.post_layernorm", "PaliGemma/img/Transformer/encoder_norm")
    dense(f"{_PAIR}.paligemma.model.multi_modal_projector.linear", "PaliGemma/img/head")

    found[HEAD] = found[EMBEDDING] = Source("PaliGemma/llm/embedder/input_embedding", _copy)
    found[EXPERT_HEAD] = Zeros((sizes.vocabulary, sizes.expert.width))
    streams = (("paligemma.model.language_model", sizes.language, ""), ("gemma_expert.model", sizes.expert, "_1"))
    for stream, gemma, suffix in streams:
        adaptive = sizes.family == "pi05" and suffix == "_1"

        def norm(target: str, leaf: str, layer: int | None = None, adaptive: bool = adaptive) -> None:
            if adaptive:
                dense(f"{target}.dense", f"{leaf}/Dense_0", layer)
            else:
                found[f"{target}.weight"] = Source(f"{leaf}/scale", _copy, layer)

        for i in range(gemma.depth):
            target, leaf = f"{_PAIR}.{stream}.layers.{i}", "PaliGemma/llm/layers"
            attention = f"{target}.self_attn"
            found[f"{attention}.q_proj.weight"] = Source(f"{leaf}/attn/q_einsum{suffix}/w", _gemma_heads, i)
            found[f"{attention}.k_proj.weight"] = Source(f"{leaf}/attn/kv_einsum{suffix}/w", _gemma_heads, i, 0)
            found[f"{attention}.v_proj.weight"] = Source(f"{leaf}/attn/kv_einsum{suffix}/w", _gemma_heads, i, 1)
            found[f"{attention}.o_proj.weight"] = Source(f"{leaf}/attn/attn_vec_einsum{suffix}/w", _out_of_heads, i)
            found[f"{target}.mlp.gate_proj.weight"] = Source(f"{leaf}/mlp{suffix}/gating_einsum", _transpose, i, 0)
            found[f"{target}.mlp.up_proj.weight"] = Source(f"{leaf}/mlp{suffix}/gating_einsum", _transpose, i, 1)
            found[f"{target}.mlp.down_proj.weight"] = Source(f"{leaf}/mlp{suffix}/linear", _transpose, i)
            norm(f"{target}.input_layernorm", f"{leaf}/pre_attention_norm{suffix}", i)
            norm(f"{target}.post_attention_layernorm", f"{leaf}/pre_ffw_norm{suffix}", i)
        norm(f"{_PAIR}.{stream}.norm", f"PaliGemma/llm/final_norm{suffix}")
    for name in _projections(sizes):
        dense(f"model.{name}", name)
    return found


def tensor_shapes(sizes: Sizes) -> dict[str, Shape]:
    """Name and shape of every tensor of LeRobot's policy, from the rules alone."""
    leaves = leaf_shapes(sizes)
    shapes: dict[str, Shape] = {}
    for target, source in sources(sizes).items():
        if isinstance(source, Zeros):
            shapes[target] = source.shape
            continue
        shape = leaves[source.leaf]
        layer = torch.empty(shape if source.layer is None else shape[1:], device="meta")
        shapes[target] = tuple(source.take(layer).shape)
    return shapes


def openpi_name(target: str) -> str:
    """The name in openpi's PyTorch model, which lacks LeRobot's outer `model.`."""
    return target.removeprefix("model.")


def openpi_tensors(sizes: Sizes) -> dict[str, Shape]:
    """Name and shape of every tensor in openpi's `model.safetensors`.

    openpi ties `embed_tokens` to `lm_head`, and safetensors keeps one of two tied names, the first: `lm_head`. With both in the file
    openpi's strict loader fails.
    """
    return {openpi_name(name): shape for name, shape in tensor_shapes(sizes).items() if name != EMBEDDING}


def with_embedding(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """LeRobot's names, the embedding among them where the file was written while it and `lm_head` were tied.

    LeRobot's loader then reads the one for the other.
    """
    return {EMBEDDING: shapes[HEAD], **shapes} if HEAD in shapes else dict(shapes)


def family_of(names: Mapping[str, Shape], where: str) -> Family:
    """pi0 or pi0.5, by the names that only one of them has (never by the name of a directory).

    Raises:
        UserError: LoRA leaves, or neither family.
    """
    adapters = [name for name in names if "lora_a" in name or "lora_b" in name]
    if adapters:
        raise UserError(
            f"{where} holds LoRA leaves ({len(adapters)}, such as {adapters[0]}). They are not part of the map: the factor that "
            "they are added with (alpha / rank) is in openpi's training configuration and not in the checkpoint, so merging them here "
            "would be a guess. Merge them into the weights with openpi, save, and convert that."
        )
    heads = {name.replace("/", ".").split(".")[0] for name in names}
    pi0, pi05 = {"state_proj", "action_time_mlp_in"} & heads, {"time_mlp_in"} & heads
    if bool(pi0) == bool(pi05):
        some = ", ".join(sorted(heads)[:6]) or "nothing"
        why = "the heads of both pi0 and pi0.5" if pi0 else "neither pi0's state_proj nor pi0.5's time_mlp_in"
        raise UserError(
            f"{where} is no pi0 or pi0.5: it holds {why} (there are: {some}). pi0-FAST and other models are not converted."
        )
    return "pi05" if pi05 else "pi0"


def jax_sizes(leaves: Mapping[str, Shape], where: str) -> Sizes:
    """Sizes of a JAX checkpoint, all of its leaves accounted for.

    Raises:
        UserError: a leaf is missing, unknown or has another shape; all of them are listed.
    """
    family = family_of(leaves, where)
    known = leaf_shapes(_any_sizes(family))  # the names are the same at every size
    _same_names(known, leaves, where)
    axes = {name: len(shape) for name, shape in known.items()}
    wrong = [
        f"  {name}: {list(shape)}, which has {len(shape)} axes instead of {axes[name]}"
        for name, shape in leaves.items()
        if len(shape) != axes[name]
    ]
    if wrong:
        raise UserError("\n".join([f"{where}: leaves have another shape than openpi's.", *wrong]))
    vision = leaves["PaliGemma/img/Transformer/encoderblock/MultiHeadDotProductAttention_0/query/kernel"]
    sizes = Sizes(
        family=family,
        language=_gemma(leaves, ""),
        expert=_gemma(leaves, "_1"),
        vision=Vision(
            width=vision[1],
            depth=vision[0],
            mlp=leaves["PaliGemma/img/Transformer/encoderblock/MlpBlock_0/Dense_0/kernel"][2],
            heads=vision[2],
            patch=leaves["PaliGemma/img/embedding/kernel"][0],
            patches=leaves["PaliGemma/img/pos_embedding"][1],
        ),
        vocabulary=leaves["PaliGemma/llm/embedder/input_embedding"][0],
        action_dim=leaves["action_in_proj/kernel"][0],
        state_dim=leaves["state_proj/kernel"][0] if family == "pi0" else None,
    )
    return _checked(sizes, leaf_shapes(sizes), leaves, where)


def torch_sizes(tensors: Mapping[str, Shape], where: str, *, prefix: str) -> Sizes:
    """Sizes of an openpi PyTorch checkpoint (`prefix` empty) or of a LeRobot policy (`prefix` is `model.`).

    The number of SigLIP's heads is in no shape; it is known for the published tower (16) and for openpi's `mu` (2).

    Raises:
        UserError: a tensor is missing, unknown or has another shape; all of them are listed.
    """
    bare = {name.removeprefix(prefix): shape for name, shape in tensors.items()}
    family = family_of(bare, where)
    names = tensor_shapes if prefix else openpi_tensors
    pair = "paligemma_with_expert"
    vision = f"{pair}.paligemma.model.vision_tower.vision_model"
    streams = [f"{pair}.paligemma.model.language_model.layers", f"{pair}.gemma_expert.model.layers"]
    depths = [_count(bare, f"{vision}.encoder.layers"), *(_count(bare, stream) for stream in streams)]
    generic = _any_sizes(family)
    generic = replace(
        generic,
        vision=replace(generic.vision, depth=depths[0]),
        language=replace(generic.language, depth=depths[1]),
        expert=replace(generic.expert, depth=depths[2]),
    )
    _same_names(names(generic), tensors, where)

    def gemma(stream: str, depth: int) -> Gemma:
        query, key = bare[f"{stream}.0.self_attn.q_proj.weight"], bare[f"{stream}.0.self_attn.k_proj.weight"]
        head = key[0]  # one key-value head in every variant
        return Gemma(query[1], depth, bare[f"{stream}.0.mlp.gate_proj.weight"][0], query[0] // head, 1, head)

    width = bare[f"{vision}.embeddings.position_embedding.weight"]
    heads = {1152: 16, 32: 2}.get(width[1])
    if heads is None:
        raise UserError(
            f"{where}: a SigLIP tower of width {width[1]} is not known, and no shape tells its number of heads."
        )
    sizes = Sizes(
        family=family,
        language=gemma(streams[0], depths[1]),
        expert=gemma(streams[1], depths[2]),
        vision=Vision(
            width=width[1],
            depth=depths[0],
            mlp=bare[f"{vision}.encoder.layers.0.mlp.fc1.weight"][0],
            heads=heads,
            patch=bare[f"{vision}.embeddings.patch_embedding.weight"][2],
            patches=width[0],
        ),
        vocabulary=bare[openpi_name(HEAD)][0],
        action_dim=bare["action_in_proj.weight"][1],
        state_dim=bare["state_proj.weight"][1] if family == "pi0" else None,
    )
    return _checked(sizes, names(sizes), tensors, where)


def _any_sizes(family: Family) -> Sizes:
    gemma = Gemma(1, 1, 1, 1, 1, 1)
    return Sizes(family, gemma, gemma, Vision(1, 1, 1, 1, 1, 1), 1, 1, 1 if family == "pi0" else None)


def _gemma(leaves: Mapping[str, Shape], suffix: str) -> Gemma:
    depth, heads, width, head_dim = leaves[f"PaliGemma/llm/layers/attn/q_einsum{suffix}/w"]
    kv_heads = leaves[f"PaliGemma/llm/layers/attn/kv_einsum{suffix}/w"][2]
    return Gemma(width, depth, leaves[f"PaliGemma/llm/layers/mlp{suffix}/linear"][1], heads, kv_heads, head_dim)


def _count(names: Mapping[str, Shape], stem: str) -> int:
    """Layers under a stem: one more than the highest index; at least 1, so that a missing tower is told as missing names."""
    indices = [name[len(stem) + 1 :].split(".")[0] for name in names if name.startswith(f"{stem}.")]
    return max((int(index) for index in indices if index.isdigit()), default=0) + 1


def _same_names(wanted: Mapping[str, Shape], given: Mapping[str, Shape], where: str) -> None:
    bare = {name: () for name in given}
    lines = differences(dict.fromkeys(wanted, ()), bare)
    if lines:
        raise UserError("\n".join([f"{where} does not hold the tensors of its model.", *lines, "Nothing was written."]))


def _checked(sizes: Sizes, wanted: Mapping[str, Shape], given: Mapping[str, Shape], where: str) -> Sizes:
    lines = differences(wanted, given)
    if lines:
        raise UserError("\n".join([f"{where} does not hold the tensors of its model.", *lines, "Nothing was written."]))
    if sizes.language.depth != sizes.expert.depth:
        raise UserError(f"{where}: {sizes.language.depth} language layers and {sizes.expert.depth} of the expert.")
    return sizes
