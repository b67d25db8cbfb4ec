"""Initial values and the audit of weights, with shards of several process counts made in one process."""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from small_models import ACTIONS, LLAMA, config, map_tower, partition, timm_tower
from timm.layers.pos_embed import resample_abs_pos_embed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from vla_runtime.errors import UserError
from vla_runtime.lora import Lora, adapt
from vla_runtime.modeling.composed import ComposedVLA, VLAConfig
from vla_runtime.partition import Frozen, Module, Partition
from vla_runtime.recompute import add_recompute
from vla_runtime.sharding import shard
from vla_runtime.weights import WeightAudit, initialise, locate, materialise, read_headers, write_weights

State = dict[str, torch.Tensor]


@contextmanager
def process(rank: int, world: int) -> Iterator[None]:
    """As if this were one process of several; nothing is ever sent."""
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def on_meta(of: VLAConfig) -> ComposedVLA:
    with torch.device("meta"):
        return ComposedVLA(of)


def direct(of: VLAConfig, seed: int = 3) -> ComposedVLA:
    model = ComposedVLA(of)
    initialise(model, partition(model), seed=seed)
    return model


def sharded(of: VLAConfig, rank: int, world: int, *, recompute: bool = False) -> tuple[ComposedVLA, Partition]:
    model = on_meta(of)
    modules = list(partition(model).modules.values())
    blocks = {
        "language": [
            f"language_model.{model.language_model.base_name}.{'h' if hasattr(model.language_model.base, 'h') else 'layers'}.*"
        ]
    }
    parts = Partition(
        model,
        [
            Module(
                m.name,
                parameters=m.parameters,
                lr=1e-3,
                blocks=blocks.get(m.name, ()),
                recompute="full" if recompute else "none",
            )
            for m in modules
        ],
    )
    if recompute:
        add_recompute(model, parts)
    shard(model, init_device_mesh("cpu", (world,)), parts)
    return model, parts


def plain(model: ComposedVLA) -> State:
    return {name.replace("_checkpoint_wrapped_module.", ""): p.detach() for name, p in model.named_parameters()}


def assert_is_part(model: ComposedVLA, whole: State, rank: int, world: int) -> None:
    shards = plain(model)
    assert set(shards) == set(whole)
    for name, tensor in shards.items():
        assert isinstance(tensor, DTensor)
        chunks = torch.chunk(whole[name], world)
        expected = chunks[rank] if rank < len(chunks) else whole[name][:0]
        assert torch.equal(tensor.to_local(), expected), name


@pytest.mark.parametrize("decoder", list(ACTIONS))
def test_meta_and_direct_initialisation_are_equal(decoder: str) -> None:
    of = config(decoder)
    model = on_meta(of)
    initialise(model, partition(model), seed=3)
    whole, other = direct(of).state_dict(), model.state_dict()
    assert all(torch.equal(whole[name], other[name]) for name in whole)
    different = direct(of, seed=4).state_dict()
    random = [name for name in whole if whole[name].unique().numel() > 2]
    assert random and not any(torch.equal(whole[name], different[name]) for name in random)


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("decoder", ["regression", "flowMatching", "joint", "tokens"])
def test_initial_values_do_not_depend_on_the_number_of_processes(decoder: str, world: int) -> None:
    of = config(decoder, vision=[map_tower()], projector={"kind": "spatialSoftArgmax", "points": 5})
    whole = plain(direct(of))
    for rank in range(world):
        with process(rank, world):
            model, parts = sharded(of, rank, world, recompute=world == 2)
            initialise(model, parts, seed=3)
            assert_is_part(model, whole, rank, world)
            assert not any(buffer.is_meta for buffer in model.buffers())


def test_initialisation_leaves_the_global_generator_alone() -> None:
    of = config()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    direct(of)
    model = on_meta(of)
    torch.manual_seed(5)
    initialise(model, partition(model), seed=3)
    assert torch.equal(torch.rand(3), expected)


def test_initial_values_follow_each_librarys_rule() -> None:
    of = config("regression", vision=[timm_tower("test_vit2"), timm_tower()])
    state = direct(of).state_dict()
    assert abs(state["language_model.model.layers.0.mlp.up_proj.weight"].std() - 0.02) < 2e-3
    assert torch.equal(state["language_model.model.norm.weight"], torch.ones(32))
    qkv = state["vision_backbone.featurizer.blocks.0.attn.qkv.weight"]
    assert abs(qkv.std() - 0.02) < 1e-3 and qkv.abs().max() < 0.1  # timm: trunc_normal_(std=0.02)
    assert not state["vision_backbone.featurizer.blocks.0.attn.qkv.bias"].any()
    assert (state["vision_backbone.featurizer.blocks.1.ls1.scale_factor"] == 1e-5).all()
    bound = state["projector.fc1.weight"].shape[1] ** -0.5  # torch: kaiming_uniform_(a=sqrt(5))
    assert 0.9 * bound < state["projector.fc1.weight"].abs().max() <= bound
    assert abs(state["action_head.queries"].std() - 0.02) < 5e-3


def test_adapters_change_no_initial_value() -> None:
    of = config()
    whole = plain(direct(of))
    model = on_meta(of)
    modules = [
        Module(
            m.name,
            parameters=m.parameters,
            lr=1e-3,
            lora=Lora(rank=2, alpha=2.0) if m.name in ("language", "vision") else None,
        )
        for m in partition(model).modules.values()
    ]
    parts = Partition(model, modules)
    adapters = adapt(model, parts, seed=1)
    initialise(model, parts, seed=3)
    adapters.initialise()
    for name, parameter in model.named_parameters():
        assert not parameter.is_meta
        if ".lora_" not in name:
            assert torch.equal(parameter, whole[name.replace(".base_layer", "")]), name


@pytest.mark.parametrize("model_type", ["siglip_vision_model", "dinov2_with_registers"])
def test_a_transformers_tower_is_initialised_by_its_own_rule(model_type: str) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32, "patch_size": 16}
    tower = timm_tower(source="transformers", name="x", layer=-1, config={"model_type": model_type, **sizes})
    state = direct(config(vision=[tower])).state_dict()
    assert all(torch.isfinite(tensor).all() for tensor in state.values())
    names = [name for name in state if name.startswith("vision_backbone.") and name.endswith("weight")]
    assert all(state[name].any() for name in names)


def test_tied_embeddings_stay_tied_through_meta_sharding_and_initialisation() -> None:
    language = {"config": {**LLAMA, "tie_word_embeddings": True}, "tokenizer": "bytes", "spare_tokens": 16}
    of = config("tokens", language=language)
    whole = plain(direct(of))
    for rank in range(2):
        with process(rank, 2):
            model, parts = sharded(of, rank, 2)
            initialise(model, parts, seed=3)
            trunk = model.language_model
            assert trunk.lm_head is not None and trunk.lm_head.weight is trunk.embeddings.weight
            assert_is_part(model, whole, rank, 2)


# ---------------------------------------------------------------------- whole models


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[VLAConfig, Path, State]:
    of = config("regression", vision=[timm_tower("test_vit2")])
    directory = tmp_path_factory.mktemp("whole")
    state = direct(of, seed=11).state_dict()
    write_weights(directory, state.items(), shard_bytes=60_000)
    return of, directory, state


def copy(directory: Path, to: Path) -> Path:
    for file in directory.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def rewrite(directory: Path, to: Path, change: Any) -> Path:
    """The directory's tensors, changed, as one file."""
    state: State = {}
    for file in sorted(directory.glob("*.safetensors")):
        state.update(load_file(file))
    change(state)
    save_file(state, to / "model.safetensors")
    return to


def test_writing_makes_files_of_a_size_with_an_index(whole: tuple[VLAConfig, Path, State], tmp_path: Path) -> None:
    _, directory, state = whole
    files = sorted(directory.glob("*.safetensors"))
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    assert len(files) > 3 and {file.name for file in files} == set(index["weight_map"].values())
    assert set(index["weight_map"]) == set(state)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in state.values())
    assert not list(directory.glob(".*"))
    padded = torch.zeros(10, 4)[:7]
    write_weights(tmp_path, [("a", padded), ("b", padded.t())])
    assert (tmp_path / "model.safetensors").stat().st_size < 700
    assert load_file(tmp_path / "model.safetensors")["b"].shape == (4, 7)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_each_process_loads_its_part(
    whole: tuple[VLAConfig, Path, State], world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, directory, state = whole
    for rank in range(world):
        with process(rank, world):
            model = on_meta(of)
            audit = WeightAudit(str(directory), None, model)
            assert audit.names == set(state)
            model, _ = sharded(of, rank, world, recompute=True)
            audit.load(model)
            assert_is_part(model, state, rank, world)


def test_the_audit_takes_no_memory_for_weights(
    whole: tuple[VLAConfig, Path, State], monkeypatch: pytest.MonkeyPatch
) -> None:
    of, directory, _ = whole
    model = on_meta(of)

    def refuse(*_: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr("torch.Tensor.copy_", refuse)
    WeightAudit(str(directory), None, model)
    assert all(parameter.is_meta for parameter in model.parameters())


def test_one_renamed_key_is_named_on_both_sides(whole: tuple[VLAConfig, Path, State], tmp_path: Path) -> None:
    of, directory, _ = whole
    key = "language_model.model.layers.1.mlp.up_proj.weight"

    def change(state: State) -> None:
        state["language_model.model.layers.1.mlp.upp_proj.weight"] = state.pop(key)

    with pytest.raises(UserError) as caught:
        WeightAudit(str(rewrite(directory, tmp_path, change)), None, on_meta(of))
    message = str(caught.value)
    assert "missing (1):\n    " + key in message
    assert "not in the model (1):\n    language_model.model.layers.1.mlp.upp_proj.weight" in message
    assert "Nothing was loaded" in message and str(tmp_path) in message
    renamed = WeightAudit(
        str(tmp_path),
        None,
        on_meta(of),
        rename={"language_model.model.layers.1.mlp.upp_proj": key.removesuffix(".weight")},
    )
    assert key in renamed.names


def test_other_shapes_are_listed(whole: tuple[VLAConfig, Path, State], tmp_path: Path) -> None:
    of, directory, _ = whole

    def change(state: State) -> None:
        state["projector.fc1.weight"] = state["projector.fc1.weight"][:, :-1].contiguous()

    with pytest.raises(
        UserError, match=r"other shape \(1\):\n    projector.fc1.weight: the file has \[32, 63\], the model \[32, 64\]"
    ):
        WeightAudit(str(rewrite(directory, tmp_path, change)), None, on_meta(of))


def test_long_lists_are_cut(whole: tuple[VLAConfig, Path, State]) -> None:
    with pytest.raises(UserError, match=r"and \d+ more"):
        WeightAudit(
            str(whole[1]), None, on_meta(config("flowMatching", vision=[timm_tower("test_vit2"), timm_tower()]))
        )


def test_cut_off_and_foreign_files_are_refused(whole: tuple[VLAConfig, Path, State], tmp_path: Path) -> None:
    of, directory, _ = whole
    copy(directory, tmp_path)
    victim = sorted(tmp_path.glob("*.safetensors"))[1]
    content = victim.read_bytes()
    for broken in (content[:-100], content[:50], b"", b"PK\x03\x04 a pickle", struct.pack("<Q", 2**40) + content[8:]):
        victim.write_bytes(broken)
        with pytest.raises(UserError, match=rf"{victim.name} is cut off or is no safetensors"):
            WeightAudit(str(tmp_path), None, on_meta(of))
    victim.unlink()
    with pytest.raises(UserError, match=rf"lacks {victim.name}, which model.safetensors.index.json names"):
        WeightAudit(str(tmp_path), None, on_meta(of))
    (tmp_path / "model.safetensors.index.json").write_text("{")
    with pytest.raises(UserError, match="no index"):
        WeightAudit(str(tmp_path), None, on_meta(of))


def test_an_index_that_disagrees_with_its_files_is_refused(
    whole: tuple[VLAConfig, Path, State], tmp_path: Path
) -> None:
    of, directory, _ = whole
    copy(directory, tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    del content["weight_map"]["projector.fc1.weight"]
    index.write_text(json.dumps(content))
    with pytest.raises(UserError, match="disagree about projector.fc1.weight"):
        WeightAudit(str(tmp_path), None, on_meta(of))


def test_the_same_key_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_file({"x": torch.zeros(1)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(UserError, match="left over"):
        read_headers(tmp_path)


def test_pickles_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"no \*.safetensors \(pytorch_model.bin can run code"):
        WeightAudit(str(tmp_path), None, on_meta(config()))


def test_sources_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="There is no file or directory ./nothing"):
        locate("./nothing", None)
    with pytest.raises(
        UserError,
        match=r"someone/thing at revision abc1234 is neither .* cache.*hf download someone/thing --revision abc1234",
    ):
        locate("someone/thing", "abc1234")
    with pytest.raises(UserError, match="a local path, which has no revision"):
        locate(str(tmp_path), "abc")


def test_a_pinned_revision_comes_from_the_hubs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revision = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "models--someone--thing" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    save_file({"x": torch.zeros(1)}, snapshot / "model.safetensors")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert locate("someone/thing", revision) == snapshot
    assert set(read_headers(locate("someone/thing", revision))) == {"x"}


def test_missing_parts_may_be_allowed_and_are_then_initialised(
    whole: tuple[VLAConfig, Path, State], tmp_path: Path
) -> None:
    of, directory, state = whole

    def drop(tensors: State) -> None:
        for name in [name for name in tensors if name.startswith("action_head.")]:
            del tensors[name]

    source = str(rewrite(directory, tmp_path, drop))
    with pytest.raises(UserError, match="action_head.queries"):
        WeightAudit(source, None, on_meta(of))
    model = on_meta(of)
    audit = WeightAudit(source, None, model, allow_missing=["action_head.*"])
    with pytest.raises(RuntimeError, match="action_head.* has no value: call initialise"):
        audit.load(model)
    initialise(model, partition(model), seed=3, loaded=[audit])
    audit.load(model)
    drawn = direct(of).state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, drawn[name] if name.startswith("action_head.") else state[name]), name


def test_bf16_files_fill_fp32_masters(whole: tuple[VLAConfig, Path, State], tmp_path: Path) -> None:
    of, _, state = whole
    save_file({name: tensor.bfloat16() for name, tensor in state.items()}, tmp_path / "model.safetensors")
    model = on_meta(of)
    WeightAudit(str(tmp_path), None, model).load(model)
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32 and torch.equal(tensor, state[name].bfloat16().float())


def test_tied_embeddings_may_lack_the_head(tmp_path: Path) -> None:
    of = config(
        "tokens",
        language={
            "config": {**LLAMA, "tie_word_embeddings": True},
            "tokenizer": "bytes",
            "spare_tokens": 0,
            "action_vocabulary": 320,
        },
    )
    state = direct(of, seed=11).state_dict()
    write_weights(tmp_path, ((n, t) for n, t in state.items() if n != "language_model.lm_head.weight"))
    model = on_meta(of)
    WeightAudit(str(tmp_path), None, model).load(model)
    trunk = model.language_model
    assert trunk.lm_head is not None and trunk.lm_head.weight is trunk.embeddings.weight
    assert torch.equal(trunk.embeddings.weight, state["language_model.model.embed_tokens.weight"])


# ---------------------------------------------------------------------- parts


def load_part(of: VLAConfig, source: Path, part: str) -> tuple[State, WeightAudit]:
    model = on_meta(of)
    audit = WeightAudit(str(source), None, model, part=part)
    initialise(model, partition(model), seed=3, loaded=[audit])
    audit.load(model)
    assert not any(tensor.isnan().any() for tensor in model.state_dict().values())
    return {
        name.removeprefix(f"{part}."): t for name, t in model.state_dict().items() if name.startswith(f"{part}.")
    }, audit


def causal_lm(directory: Path, **changes: Any) -> Any:
    torch.manual_seed(2)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**{**LLAMA, **changes}))
    model.save_pretrained(directory)
    return model


@pytest.mark.parametrize("decoder", ["regression", "tokens"])
def test_a_causal_language_model_directory(decoder: str, tmp_path: Path) -> None:
    source = causal_lm(tmp_path)
    language = {"name": str(tmp_path), "tokenizer": "bytes", "spare_tokens": 16 if decoder == "tokens" else 0}
    part, audit = load_part(config(decoder, language=language), tmp_path, "language_model")
    for name, tensor in source.state_dict().items():
        if name == "lm_head.weight" and decoder == "regression":
            assert name not in part
        else:
            assert torch.equal(part[name][: tensor.shape[0]], tensor), name
    if decoder == "tokens":  # the rows for action tokens are new, so they are drawn
        assert part["lm_head.weight"].shape[0] == 336 and "language_model.lm_head.weight" not in audit.names
        assert abs(part["model.embed_tokens.weight"][320:].std() - 0.02) < 5e-3


def test_spare_rows_are_read_by_shard(tmp_path: Path) -> None:
    source = causal_lm(tmp_path)
    language = {"name": str(tmp_path), "tokenizer": "bytes", "spare_tokens": 16}
    of = config("tokens", language=language)
    expected, _ = load_part(of, tmp_path, "language_model")
    assert torch.equal(expected["model.embed_tokens.weight"][:320], source.state_dict()["model.embed_tokens.weight"])
    for rank in range(3):
        with process(rank, 3):
            model, parts = sharded(of, rank, 3)
            audit = WeightAudit(str(tmp_path), None, model, part="language_model")
            initialise(model, parts, seed=3, loaded=[audit])
            audit.load(model)
            for name, tensor in plain(model).items():
                if name.startswith("language_model."):
                    assert isinstance(tensor, DTensor)
                    chunks = torch.chunk(expected[name.removeprefix("language_model.")], 3)
                    assert torch.equal(tensor.to_local(), chunks[rank]), name


def test_a_base_model_directory_without_the_output_embedding(tmp_path: Path) -> None:
    torch.manual_seed(2)
    source = AutoModel.from_config(AutoConfig.for_model(**LLAMA))
    source.save_pretrained(tmp_path)
    part, _ = load_part(config(), tmp_path, "language_model")
    assert all(torch.equal(part[f"model.{name}"], tensor) for name, tensor in source.state_dict().items())


def test_another_language_model_is_refused(tmp_path: Path) -> None:
    causal_lm(tmp_path, hidden_size=64)
    with pytest.raises(UserError, match=r"for language_model .*\n  other shape"):
        WeightAudit(str(tmp_path), None, on_meta(config()), part="language_model")
    with pytest.raises(UserError, match="no part 'text_model'"):
        WeightAudit(str(tmp_path), None, on_meta(config()), part="text_model")


@pytest.mark.parametrize("as_file", [True, False])
def test_a_timm_token_tower_with_its_classifier_and_layer_scale(as_file: bool, tmp_path: Path) -> None:
    torch.manual_seed(2)
    source = timm.create_model("test_vit2", img_size=32)
    save_file({n: t + 0.01 for n, t in source.state_dict().items()}, tmp_path / "model.safetensors")
    of = config(vision=[timm_tower(), timm_tower("test_vit2")])
    part, _ = load_part(of, tmp_path / "model.safetensors" if as_file else tmp_path, "vision_backbone.fused_featurizer")
    for name, tensor in source.state_dict().items():
        if not name.startswith(("head.", "fc_norm.")):
            assert torch.equal(part[name.replace("gamma", "scale_factor")], tensor + 0.01), name


@pytest.mark.parametrize("no_embed_class", [True, False])
def test_a_timm_towers_position_grid_is_resampled(no_embed_class: bool, tmp_path: Path) -> None:
    torch.manual_seed(2)
    options: dict[str, Any] = {"no_embed_class": no_embed_class}
    source: Any = timm.create_model("test_vit2", img_size=64, **options)
    save_file(source.state_dict(), tmp_path / "model.safetensors")
    part, _ = load_part(
        config(vision=[timm_tower("test_vit2", options=options)]), tmp_path, "vision_backbone.featurizer"
    )
    resample: Any = resample_abs_pos_embed
    expected = resample(source.pos_embed, [2, 2], num_prefix_tokens=0 if no_embed_class else 1)
    assert torch.equal(part["pos_embed"], expected)


def test_a_timm_map_tower_takes_only_its_layers(tmp_path: Path) -> None:
    torch.manual_seed(2)
    source = timm.create_model("test_convnext")
    save_file(source.state_dict(), tmp_path / "model.safetensors")
    of = config(vision=[map_tower()], projector={"kind": "spatialSoftArgmax", "points": 4})
    part, _ = load_part(of, tmp_path, "vision_backbone.featurizer")
    assert torch.equal(
        part["stages_0.blocks.0.conv_dw.weight"], source.state_dict()["stages.0.blocks.0.conv_dw.weight"]
    )
    other = timm.create_model("test_resnet")
    save_file(other.state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="missing"):
        WeightAudit(str(tmp_path), None, on_meta(of), part="vision_backbone.featurizer")


@pytest.mark.parametrize("norm", ["native", "group"])
def test_batch_norm_statistics_are_loaded_or_left_aside(norm: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    source = timm.create_model("test_resnet")
    save_file(
        {n: t + (1 if t.is_floating_point() else 0) for n, t in source.state_dict().items()},
        tmp_path / "model.safetensors",
    )
    of = config(vision=[map_tower("test_resnet", norm=norm)], projector={"kind": "spatialSoftArgmax", "points": 4})
    part, _ = load_part(of, tmp_path, "vision_backbone.featurizer")
    statistics = [name for name in part if "running_mean" in name]
    assert bool(statistics) == (norm == "native")
    assert all((part[name] == 1).all() for name in statistics)


def test_a_transformers_tower_from_a_two_tower_model(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    torch.manual_seed(2)
    both = AutoConfig.for_model(
        "siglip", vision_config={**sizes, "image_size": 32, "patch_size": 16}, text_config={**sizes, "vocab_size": 99}
    )
    source = AutoModel.from_config(both)
    source.save_pretrained(tmp_path)
    of = config(vision=[timm_tower(source="transformers", name=str(tmp_path), layer=-2)])
    part, _ = load_part(of, tmp_path, "vision_backbone.featurizer")
    assert part and all(torch.equal(tensor, source.state_dict()[name]) for name, tensor in part.items())


def test_frozen_modules_keep_their_storage_dtype(whole: tuple[VLAConfig, Path, State]) -> None:
    of, directory, state = whole
    model = on_meta(of)
    modules = [
        Module(m.name, parameters=m.parameters, lr=1e-3, dtype="bf16", storage="bf16", freeze=[Frozen()])
        if m.name == "vision"
        else m
        for m in partition(model).modules.values()
    ]
    parts = Partition(model, modules)
    with process(0, 2):
        shard(model, init_device_mesh("cpu", (2,)), parts)
        WeightAudit(str(directory), None, model).load(model)
        for name, tensor in plain(model).items():
            assert isinstance(tensor, DTensor)
            expected = torch.chunk(state[name], 2)[0]
            assert torch.equal(tensor.to_local(), expected.bfloat16() if name.startswith("vision") else expected)


def test_materialise_keeps_buffers_and_does_nothing_twice() -> None:
    model = on_meta(config())
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    materialise(model, torch.device("cpu"))
    assert not any(p.is_meta for p in model.parameters())
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    first = next(model.parameters())
    materialise(model)
    assert next(model.parameters()) is first
