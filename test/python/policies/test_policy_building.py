"""Building policies from declarations, what is refused, and which of their blocks are called."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_specs
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from vla_runtime.errors import UserError
from vla_runtime.policies.draws import PerSampleDraws
from vla_runtime.policies.losses import losses_of
from vla_runtime.policies.samples import example_batch
from vla_runtime.policies.spec import PolicySpec, build_policy, policy_config
from vla_runtime.policies.training import CropBySample, prepare
from vla_runtime.policies.units import called_blocks, trace

SPECS: dict[str, Callable[[], PolicySpec]] = {"act": small_specs.act, "diffusion": small_specs.diffusion}


@pytest.mark.parametrize("kind", SPECS)
def test_on_meta_the_policy_has_the_same_names_and_shapes_and_real_buffers(kind: str) -> None:
    spec = SPECS[kind]()
    with torch.device("meta"):
        empty = build_policy(spec)
    real = build_policy(spec)
    assert {n: p.shape for n, p in empty.named_parameters()} == {n: p.shape for n, p in real.named_parameters()}
    assert all(parameter.is_meta for parameter in empty.parameters())
    assert {n: b.shape for n, b in empty.named_buffers()} == {n: b.shape for n, b in real.named_buffers()}
    for (name, buffer), (_, expected) in zip(empty.named_buffers(), real.named_buffers(), strict=True):
        assert torch.equal(buffer, expected), name


def test_on_meta_the_backbones_published_weights_are_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("fetched")

    monkeypatch.setattr("torchvision.models._api.WeightsEnum.get_state_dict", fetched)
    backbone = {"vision_backbone": "resnet18", "pretrained_backbone_weights": "ResNet18_Weights.IMAGENET1K_V1"}
    spec = small_specs.act(config=backbone)
    with torch.device("meta"):
        policy: Any = build_policy(spec)
    assert policy.config.pretrained_backbone_weights == "ResNet18_Weights.IMAGENET1K_V1"
    with pytest.raises(UserError, match="fetched"):  # where it is to start from them, it does
        build_policy(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (small_specs.act(type="pi9"), "LeRobot knows no policy 'pi9'"),
        (small_specs.act(config={"chunk_length": 3}), "chunk_length"),
        (small_specs.act(config={"n_action_steps": 9}), "upper bound"),
        (small_specs.act(config={"dim_model": "wide"}), "dim_model"),
        (small_specs.act(config={"device": "cpu"}), "says device"),
        (
            small_specs.diffusion(config={"do_mask_loss_for_padding": False}),
            "do_mask_loss_for_padding=False, but padding is 'masked'",
        ),
        (small_specs.diffusion(config={"horizon": 5}), "downsampling factor"),
    ],
)
def test_a_configuration_that_lerobot_refuses_is_a_users_mistake(spec: PolicySpec, message: str) -> None:
    with pytest.raises(UserError, match=message):
        policy_config(spec)


def test_a_plugin_shows_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lerobot_policy_broken.py").write_text("raise RuntimeError('needs a robot')\n")
    (tmp_path / "lerobot_policy_empty.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="lerobot_policy_broken.*RuntimeError: needs a robot"):
        policy_config(small_specs.act(plugin="lerobot_policy_broken"))
    with pytest.raises(UserError, match="No module named 'lerobot_policy_none'"):
        policy_config(small_specs.act(plugin="lerobot_policy_none"))
    with pytest.raises(UserError, match="the plugin lerobot_policy_empty registers no such type"):
        policy_config(small_specs.act(type="mine", plugin="lerobot_policy_empty"))
    sys.modules.pop("lerobot_policy_empty", None)


def test_batch_normalisation_that_learns_is_refused_or_frozen() -> None:
    spec = small_specs.diffusion(config={"use_group_norm": False})
    policy = build_policy(spec)
    with pytest.raises(UserError, match="diffusion.rgb_encoder.*batch normalisation.*use_group_norm"):
        prepare(policy, spec)
    frozen = replace(spec, batch_norm="frozen")
    prepare(policy, frozen)
    policy.train()
    norms = [module for module in policy.modules() if isinstance(module, _BatchNorm)]
    before = [module.running_mean.clone() for module in norms if module.running_mean is not None]
    model: Any = policy
    model(example_batch(frozen)).sum().backward()
    assert norms and not any(module.training for module in norms)
    assert all(torch.equal(a, m.running_mean) for a, m in zip(before, norms, strict=True) if m.running_mean is not None)


@pytest.mark.parametrize("kind", SPECS)
def test_sums_over_counts_are_lerobots_own_loss(kind: str) -> None:
    spec = SPECS[kind]()
    torch.manual_seed(1)
    policy: Any = build_policy(spec)
    batch = example_batch(spec, 3)
    batch.tensors["action"] = torch.rand_like(batch.tensors["action"])
    batch.tensors["action_is_pad"][1, 2:] = True
    batch.valid = ~batch.tensors["action_is_pad"]
    with batch.draws():
        expected = type(policy).forward(policy, dict(batch.tensors))[0]
    prepare(policy, spec)
    sums, counts = policy(batch), policy.valid_count(batch)
    assert sums.shape == counts.shape == (len(losses_of(kind).terms),)
    torch.testing.assert_close((sums / counts).sum(), expected, rtol=1e-6, atol=1e-6)
    batch.valid[:] = False
    assert torch.equal(policy(batch), torch.zeros_like(sums)) and not policy.valid_count(batch).any()


@pytest.mark.parametrize("kind", [*SPECS, "multi_task_dit"])
def test_a_sample_alone_in_a_stock_process_gets_the_actions_of_the_batch(kind: str, tmp_path: Path) -> None:
    """The reference batch's promise: `torch.manual_seed(seeds[i])`, LeRobot's own class, sample i alone on the CPU."""
    spec = SPECS[kind]() if kind in SPECS else small_specs.multi_task_dit(tmp_path)
    torch.manual_seed(2)
    policy: Any = build_policy(spec)
    stock: Any = build_policy(spec)
    stock.load_state_dict(policy.state_dict())
    prepare(policy, spec)
    batch = example_batch(spec, 3)
    for name, value in batch.tensors.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            batch.tensors[name] = torch.rand_like(value)
    batch.seeds = [7, 8, 9]
    shape = losses_of(kind).noise_shape(policy.config)
    batch.noise = None if shape is None else torch.randn(3, *shape)
    policy.eval()
    stock.eval()
    with torch.no_grad():
        together = policy.predict(batch)
    for i in range(3):
        one = {
            name: value[i : i + 1] if isinstance(value, torch.Tensor) else value
            for name, value in batch.tensors.items()
            if not name.startswith("action")
        }
        torch.manual_seed(batch.seeds[i])
        first = torch.empty(0)
        stock.reset()
        if kind == "multi_task_dit":  # only through the queues that `select_action` fills
            for step in range(2):
                now = {n: v[:, step] if n in policy.config.input_features else v for n, v in one.items()}
                if step == 0:
                    images = torch.stack([now[key] for key in policy.config.image_features], dim=-4)
                    for _ in range(2):
                        stock._queues["observation.images"].append(images)
                        stock._queues["observation.state"].append(now["observation.state"])
                else:
                    torch.manual_seed(batch.seeds[i])
                    first = stock.select_action(now)
            alone = torch.stack([first, *stock._queues["action"]], dim=1)  # pyright: ignore[reportPossiblyUnboundVariable]
        elif batch.noise is None:
            alone = stock.predict_action_chunk(one)
        else:
            alone = stock.predict_action_chunk(one, noise=batch.noise[i : i + 1])
        torch.testing.assert_close(alone, together[i : i + 1], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(together[0], together[1])


@pytest.mark.parametrize("kind", SPECS)
def test_wrap_units_are_called_and_the_uncalled_are_known(kind: str) -> None:
    spec = SPECS[kind]()
    with torch.device("meta"):
        policy = build_policy(spec)
    prepare(policy, spec)
    found = trace(policy, example_batch(spec))
    patterns = {blocks.pattern for blocks in found.blocks if blocks.called == blocks.names}
    expected = {
        "act": {
            "model.vae_encoder.layers.*",
            "model.encoder.layers.*",
            "model.decoder.layers.*",
            "model.backbone.layer4.*",
        },
        "diffusion": {
            "diffusion.rgb_encoder.0.backbone.7.*",
            "diffusion.unet.mid_modules.*",
            "diffusion.rgb_encoder.*",
        },
    }
    assert expected[kind] <= patterns
    assert set(losses_of(kind).uncalled or ()) == set(found.uncalled)  # a release that calls other modules fails here
    assert found.dead == ()
    assert [blocks.pattern for blocks in called_blocks(policy, example_batch(spec))] == [
        blocks.pattern for blocks in found.blocks if blocks.called == blocks.names
    ]


def test_an_unknown_policys_uncalled_modules_are_found(tmp_path: Path) -> None:
    spec = small_specs.multi_task_dit(tmp_path)
    policy = build_policy(spec)
    prepare(policy, spec)
    found = trace(policy, example_batch(spec))
    assert "observation_encoder" in found.uncalled  # LeRobot calls its `encode`
    assert getattr(policy.get_submodule("observation_encoder"), "is_container", False)
    assert any(blocks.pattern == "noise_predictor.transformer_blocks.*" and blocks.called for blocks in found.blocks)
    assert any("post_layernorm" in name for name in found.dead)


class _Choosing(nn.Module):
    """Decides by a value, which a tensor without values does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, batch: Any) -> torch.Tensor:
        self.steps += 1
        if bool(batch.tensors["action"].sum() > 1e9):
            return self.layers[1](batch.tensors["action"]).sum().reshape(1)
        return self.layers[0](batch.tensors["action"]).sum().reshape(1)


def test_a_policy_that_decides_by_values_is_run_for_real_and_left_as_it_was() -> None:
    policy: Any = _Choosing()
    found = trace(policy, example_batch(small_specs.act()))
    assert [blocks.called for blocks in found.blocks] == [("layers.0",)]
    assert found.dead == ("layers.1.weight", "layers.1.bias")
    assert float(policy.steps) == 0 and all(parameter.grad is None for parameter in policy.parameters())
    assert called_blocks(policy, example_batch(small_specs.act())) == []
    with pytest.raises(UserError, match="without values"):
        trace(_Choosing().to("meta"), example_batch(small_specs.act()))


def test_a_random_crop_belongs_to_the_sample() -> None:
    crop = CropBySample((4, 5))
    pictures = torch.arange(6 * 3 * 9 * 9, dtype=torch.float32).reshape(6, 3, 9, 9)
    with PerSampleDraws(0, 0, [0, 1, 2]):
        together = crop(pictures)
    with PerSampleDraws(0, 0, [2]):
        alone = crop(pictures[4:])
    assert together.shape == (6, 3, 4, 5) and torch.equal(together[4:], alone)
    corners = {int(picture[0, 0, 0]) % 81 for picture in together}
    assert len(corners) > 1
    with PerSampleDraws(0, 0, list(range(200))):
        tops = {int(p[0, 0, 0]) // 9 for p in crop(torch.arange(81.0).reshape(1, 1, 9, 9).expand(200, 3, 9, 9))}
    assert tops == {0, 1, 2, 3, 4, 5}
    with pytest.raises(UserError, match="cannot be cropped"):
        crop(pictures[..., :3, :3])
