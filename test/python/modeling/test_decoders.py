"""Action decoders against their equations."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_models import batch, build, config
from vla_runtime.modeling.decoders import ActionBins, FlowHead, MLPResNet, RegressionHead, flow_point, time_embedding


def test_every_bin_is_encoded_and_decoded_by_openvlas_formulae() -> None:
    bins, edges = ActionBins(256, 32_000), np.linspace(-1, 1, 256)
    centres = (edges[:-1] + edges[1:]) / 2
    actions = np.concatenate([centres, edges, edges - 1e-6, edges + 1e-6, [-7.0, 7.0, 0.0]])
    expected = 32_000 - np.digitize(np.clip(actions, -1, 1), edges)
    ids = bins.encode(torch.from_numpy(actions))
    assert ids.tolist() == expected.tolist()
    assert (int(ids.min()), int(ids.max()), bins.first) == (31_744, 31_999, 31_744)
    every = torch.arange(31_744, 32_000)
    np.testing.assert_array_equal(bins.decode(every).numpy(), centres[np.clip(32_000 - every.numpy() - 1, 0, 254)])
    assert bins.decode(every)[0] == bins.decode(every)[1]  # 256 ids, 255 centres
    assert torch.equal(bins.encode(bins.decode(every[1:])), every[1:])
    assert (
        bins.decode(bins.encode(torch.linspace(-1, 1, 4001))) - torch.linspace(-1, 1, 4001)
    ).abs().max() <= 1 / 255 + 1e-6


def test_bins_take_fp32_actions_at_their_exact_value() -> None:
    bins, edges = ActionBins(256, 32_000), np.linspace(-1, 1, 256)
    actions = torch.linspace(-1, 1, 4001, dtype=torch.float32)
    assert bins.encode(actions).tolist() == (32_000 - np.digitize(actions.double().numpy(), edges)).tolist()


def test_teacher_forcing_and_greedy_decoding_agree() -> None:
    for state_dim in (3, 0):
        of = config("tokens", state_dim=state_dim)
        model, samples = build(of), batch(of)
        predicted = model.predict(samples)
        assert model.bins is not None
        ids = model.bins.encode(predicted).flatten(1)
        logits, _ = model._trunk(samples, model._observe(samples), answer=ids, predict=True)
        best = logits[:, :-1, model.bins.first : model.bins.vocabulary].argmax(-1) + model.bins.first
        assert torch.equal(model.bins.decode(best), model.bins.decode(ids))


def test_token_losses_are_the_cross_entropy_of_the_next_token() -> None:
    of = config("tokens")
    model, samples = build(of), batch(of)
    assert model.bins is not None and samples.actions is not None
    ids = model.bins.encode(samples.actions).flatten(1)
    logits, _ = model._trunk(samples, model._observe(samples), answer=ids, predict=True)
    labels = torch.cat([ids, torch.full((3, 1), 257)], dim=1)  # </s> of the byte-level tokenizer
    expected = -logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(model(samples)[0], expected[0], rtol=1e-12, atol=0)


def test_regression_is_the_distance_of_what_it_predicts() -> None:
    for decoder in ("regression", "regressionZero"):
        of = config(decoder)
        model, samples = build(of), batch(of)
        assert samples.actions is not None and samples.valid is not None
        expected = (model.predict(samples) - samples.actions).abs() * samples.valid.unsqueeze(-1)
        assert torch.equal(model(samples), expected)


def test_openvla_ofts_head_has_its_published_size() -> None:
    with torch.device("meta"):
        head = RegressionHead(4096, chunk=8, action_dim=7, hidden=4096, blocks=2, slots=7, learnable=False)
        wide = RegressionHead(4096, chunk=25, action_dim=14, hidden=4096, blocks=2, slots=14, learnable=False)
    assert sum(p.numel() for p in head.parameters()) == 151_117_831
    assert sum(p.numel() for p in wide.parameters()) == 268_644_366


def test_the_residual_network_is_openvla_ofts() -> None:
    net = MLPResNet(6, 8, 2, 1).double()
    x = torch.randn(5, 6, dtype=torch.float64)
    norm = torch.nn.functional.layer_norm
    y = torch.relu(net.fc1(norm(x, (6,))))
    ffn = net.mlp_resnet_blocks[0].ffn  # type: ignore[union-attr]
    y = y + torch.relu(ffn[1](norm(y, (8,))))  # type: ignore[index, operator]
    torch.testing.assert_close(net(x), net.fc2(norm(y, (8,))), rtol=1e-12, atol=0)


def test_the_flow_is_openpis() -> None:
    actions, noise = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    point, velocity = flow_point(actions, noise, torch.tensor([1.0, 0.0]))
    assert torch.equal(point[0], noise[0]) and torch.equal(point[1], actions[1])
    assert torch.equal(velocity, noise - actions)
    time = torch.tensor([0.3, 0.3])
    early, _ = flow_point(actions, noise, time)
    later, _ = flow_point(actions, noise, time + 1e-3)
    torch.testing.assert_close((later - early) / 1e-3, velocity, rtol=1e-2, atol=1e-2)


def test_time_is_embedded_as_in_openpi() -> None:
    """openpi, models/pi0.py, posemb_sincos: periods from 4e-3 to 4."""
    time, width = torch.tensor([0.25, 0.9], dtype=torch.float64), 8
    expected = []
    for t in time.tolist():
        angles = [t / (4e-3 * (4.0 / 4e-3) ** (i / 3)) * 2 * math.pi for i in range(4)]
        expected.append([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
    torch.testing.assert_close(
        time_embedding(time, width), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9
    )


def test_flow_losses_are_the_squared_error_of_the_velocity() -> None:
    of = config("flowMatching")
    model, samples = build(of), batch(of)
    assert (
        samples.actions is not None
        and samples.noise is not None
        and samples.time is not None
        and samples.valid is not None
    )
    context, seen = model._trunk(samples, model._observe(samples))
    t = samples.time[:, None, None]
    assert isinstance(model.action_head, FlowHead)
    velocity = model.action_head(
        t * samples.noise + (1 - t) * samples.actions, samples.time, context, seen, samples.valid
    )
    expected = (velocity - (samples.noise - samples.actions)) ** 2 * samples.valid.unsqueeze(-1)
    torch.testing.assert_close(model(samples), expected, rtol=1e-12, atol=0)


def test_sampling_is_eulers_method_from_noise() -> None:
    of = config("flowMatching")
    model, samples = build(of), batch(of)
    assert samples.noise is not None and isinstance(model.action_head, FlowHead)
    context, seen = model._trunk(samples, model._observe(samples))
    x, every = samples.noise, torch.ones(3, 3, dtype=torch.bool)
    for time in (1.0, 0.75, 0.5, 0.25):
        x = x + -0.25 * model.action_head(x, torch.full((3,), time, dtype=torch.float64), context, seen, every)
    torch.testing.assert_close(model.predict(samples), x, rtol=1e-12, atol=1e-12)
    assert not torch.equal(model.predict(replace(samples, noise=-samples.noise)), model.predict(samples))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="multiple of heads"):
        FlowHead(32, chunk=3, action_dim=4, hidden=24, layers=1, heads=5)


def test_a_missing_input_is_named() -> None:
    of = config("flowMatching")
    model, samples = build(of), batch(of)
    for name in ("noise", "time", "actions", "valid", "state"):
        with pytest.raises(ValueError, match=name):
            model(replace(samples, **{name: None}))
    with pytest.raises(ValueError, match="wrist"):
        model(replace(samples, images={"front": samples.images["front"]}))
