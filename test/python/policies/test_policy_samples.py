"""Samples of LeRobot's policies: the windows and pictures that LeRobot's own loader gives, in the run's global order."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_specs
import torch
from dataset_fixture import FakeMesh, FakeRun, write_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from torch import Tensor
from vla_runtime.augment import Augmentation
from vla_runtime.data import Dataset, holdout_loss
from vla_runtime.errors import UserError
from vla_runtime.policies.batch import PolicyBatch
from vla_runtime.policies.samples import PolicySamples, example_batch, policy_samples
from vla_runtime.policies.spec import PolicySpec, policy_config

LENGTHS = [7, 5, 9, 6]


def source(root: Path, **changes: Any) -> Dataset:
    """The fixture's dataset as `front`."""
    values: dict[str, Any] = {
        "name": "one",
        "cameras": {"front": "observation.image"},
        "state": "observation.state",
        "action": "action",
        "root": str(root),
        **changes,
    }
    return Dataset(**values)


def make(
    root: Path, policy: PolicySpec, rank: int = 0, world: int = 1, micro: int = 12, **changes: Any
) -> PolicySamples:
    """The samples of one rank, global batch 12."""
    options: dict[str, Any] = {
        "policy": policy,
        "run": FakeRun(),
        "mesh": FakeMesh(rank, world),
        "constant": "refuse",
        "global_batch": 12,
        "micro_batch": micro,
        "seed": 3,
    }
    return policy_samples(changes.pop("datasets", [source(root)]), **{**options, **changes})


def tensors(batch: PolicyBatch) -> dict[str, Tensor]:
    """All tensors of a batch."""
    return {"valid": batch.valid, **{name: value for name, value in batch.tensors.items() if isinstance(value, Tensor)}}


SPECS: dict[str, Callable[[], PolicySpec]] = {"act": small_specs.act, "diffusion": small_specs.diffusion}


@pytest.mark.parametrize("kind", SPECS)
def test_a_sample_is_what_lerobots_loader_and_processors_make_of_it(dataset: Path, kind: str) -> None:
    """Windows clipped at both ends of the episode, padding flags, pictures in [0, 1], normalised: against LeRobot's own code."""
    policy = replace(SPECS[kind](), imagenet_statistics=False)
    ours = make(dataset, policy)
    config = policy_config(policy, device="cpu")
    deltas = {"action": [step / 10 for step in config.action_delta_indices]}
    if config.observation_delta_indices is not None:
        deltas |= {
            name: [s / 10 for s in config.observation_delta_indices]
            for name in ("observation.image", "observation.state")
        }
    theirs = LeRobotDataset("local/test", root=dataset, delta_timestamps=deltas)
    before, _ = ours.processors("one")
    for frame in range(sum(LENGTHS)):
        loaded: Any = theirs[frame]
        batch = ours._view.collate([ours._view[(0, 0, 0, frame)]])
        item: dict[str, Any] = {
            name.replace("observation.image", "observation.images.front"): value[None]
            if isinstance(value, Tensor)
            else [value]
            for name, value in loaded.items()  # pyright: ignore[reportAttributeAccessIssue]
        }
        expected = before(item)
        for name, value in tensors(batch).items():
            if name != "valid":
                torch.testing.assert_close(value, expected[name], rtol=0, atol=0, msg=f"{frame} {name}")
        assert torch.equal(batch.valid, ~expected["action_is_pad"])
        assert batch.tensors["task"] == expected["task"]
        assert batch.valid.any()


@pytest.mark.parametrize(("world", "micro"), [(2, 6), (2, 3), (3, 2)])
def test_ranks_and_micro_batches_share_one_global_batch(dataset: Path, world: int, micro: int) -> None:
    augmentation = Augmentation(brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05)
    policy = small_specs.diffusion()
    whole = make(dataset, policy, augmentation=augmentation)
    parts = [make(dataset, policy, rank, world, micro, augmentation=augmentation) for rank in range(world)]
    for update in range(2):
        (reference,) = whole.next_update(1)
        assert (reference.update, reference.seed) == (update, 3)
        seen: list[int] = []
        for part in parts:
            for batch in part.next_update(12 // (world * micro)):
                seen += batch.positions
                for name, value in tensors(batch).items():
                    assert torch.equal(value, tensors(reference)[name][list(batch.positions)]), name
        assert sorted(seen) == list(range(12))


def test_augmentation_changes_what_is_trained_on_and_not_what_is_evaluated(dataset: Path) -> None:
    held = [source(dataset, holdout=[1])]
    plain, augmented = (
        make(dataset, small_specs.act(), datasets=held, augmentation=a) for a in (None, Augmentation(brightness=0.4))
    )
    image = "observation.images.front"
    assert not torch.equal(plain.next_update(1)[0].tensors[image], augmented.next_update(1)[0].tensors[image])
    for a, b in zip(plain.holdout(), augmented.holdout(), strict=True):
        assert torch.equal(a.tensors[image], b.tensors[image])
    with pytest.raises(UserError, match="magnified"):
        make(dataset, small_specs.act(), augmentation=Augmentation(crop=0.9))


def test_loader_workers_and_another_number_of_ranks_resume_alike(dataset: Path) -> None:
    policy = small_specs.diffusion()
    whole = make(dataset, policy)
    batches = [whole.next_update(1)[0] for _ in range(3)]
    later = make(dataset, policy, 1, 2, 6, workers=1)
    later.load_state({"samples": 24})
    (batch,) = later.next_update(1)
    for name, value in tensors(batch).items():
        assert torch.equal(value, tensors(batches[2])[name][6:]), name


def test_padding_counts_where_it_is_said(dataset: Path) -> None:
    masked, counted = (make(dataset, small_specs.diffusion(padding=padding)) for padding in ("masked", "counted"))
    a, b = masked.next_update(1)[0], counted.next_update(1)[0]
    assert not a.valid.all() and b.valid.all()
    assert torch.equal(a.tensors["action_is_pad"], b.tensors["action_is_pad"])
    assert policy_config(masked.policy, device="cpu").do_mask_loss_for_padding
    assert not policy_config(counted.policy, device="cpu").do_mask_loss_for_padding


def test_the_last_frames_are_left_out_as_lerobot_does(dataset: Path) -> None:
    data = make(dataset, small_specs.diffusion(config={"drop_n_last_frames": 4}))
    ends = [sum(LENGTHS[: i + 1]) for i in range(len(LENGTHS))]
    expected = [f for start, end in zip([0, *ends], ends, strict=False) for f in range(start, end - 4)]
    assert data._sources[0].training == expected
    with pytest.raises(UserError, match="drop_n_last_frames"):
        make(dataset, small_specs.diffusion(config={"drop_n_last_frames": 9}))


def test_datasets_of_a_mixture_keep_their_own_statistics(dataset: Path, tmp_path: Path) -> None:
    other = write_dataset(tmp_path / "other", seed=5)
    both = [source(dataset, name="a"), source(other, name="b")]
    data = make(dataset, small_specs.act(), datasets=both)
    (batch,) = data.next_update(1)
    assert set(batch.dataset) == {"a", "b"}
    for row, (name, position) in enumerate(zip(batch.dataset, batch.positions, strict=True)):
        alone = make(dataset, small_specs.act(), datasets=[both[0 if name == "a" else 1]])
        key = data._order.block(position, position + 1, data._order.counts(position))[0]
        one = alone._view.collate([alone._view[(0, position, 0, key[1])]])
        for tensor, value in tensors(one).items():
            assert torch.equal(value[0], tensors(batch)[tensor][row]), tensor


def test_reference_actions_return_to_the_datasets_units(dataset: Path) -> None:
    for spec in (small_specs.act(), small_specs.diffusion()):
        data = make(dataset, spec)
        reference = data.reference_batch()
        back = data.denormalize(reference.batch.tensors["action"], reference.datasets)
        original = torch.stack([data._view[(-1, i, *key)].actions for i, key in enumerate(data._reference_frames())])
        torch.testing.assert_close(back, original, rtol=1e-5, atol=1e-5)
        time = (2,) if spec.type == "diffusion" else ()
        assert (
            reference.images["front"].shape == (4, *time, 3, 24, 24) and reference.images["front"].dtype == torch.uint8
        )
        assert reference.state is not None and reference.state.shape == (4, *time, 2)
        assert (reference.noise is None) == (spec.type == "act")
        again = data.reference_batch()
        assert reference.seeds == again.seeds and len(set(reference.seeds)) == 4


class _Terms(torch.nn.Module):
    """Two terms whose denominators differ."""

    def forward(self, batch: PolicyBatch) -> Tensor:
        action = batch.tensors["action"].abs()
        return torch.stack([(action * batch.valid[..., None]).sum(), (action.mean((1, 2)) * batch.counted).sum()])

    def valid_count(self, batch: PolicyBatch) -> Tensor:
        return torch.stack([batch.valid.sum() * batch.action_dim, batch.counted.sum()])


def test_held_out_loss_divides_each_term_by_its_own_count(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [source(dataset, holdout=[1, 3])]
    whole = list(make(dataset, small_specs.act(), micro=11, global_batch=11, datasets=held).holdout())
    assert len(whole) == 1 and whole[0].size == 11  # 5 + 6 frames
    action, valid = whole[0].tensors["action"].abs(), whole[0].valid
    expected = float(action[valid].mean() + action.mean((1, 2)).mean())
    parts = []
    for rank in range(3):
        data = make(dataset, small_specs.act(), rank, 3, 4, datasets=held)
        totals: list[Tensor] = []
        monkeypatch.setattr("vla_runtime.order.global_sum", lambda value, mesh, t=totals: t.append(value) or value)
        holdout_loss(_Terms(), data, data.mesh)
        parts.append(totals)
    sums, counts = (torch.stack([part[i] for part in parts]).sum(0) for i in range(2))
    assert float((sums / counts).sum()) == pytest.approx(expected, rel=1e-6)


def _broken(dataset: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    target = tmp_path / "broken"
    shutil.copytree(dataset, target)
    path = target / "meta" / "stats.json"
    statistics = json.loads(path.read_text())
    change(statistics)
    path.write_text(json.dumps(statistics))
    return target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("action"), "no statistics of 'action'"),
        (lambda s: s["action"].pop("max"), "action has no statistic 'max'"),
        (lambda s: s["action"]["max"].__setitem__(1, float("nan")), r"not finite in dimensions \[1\]"),
        (lambda s: s["action"].update(max=s["action"]["min"]), "never change"),
        (lambda s: s["observation.state"]["mean"].append(0.0), "'mean' of 'observation.state' has 3 values"),
        (lambda s: s["observation.image"].pop("std"), "observation.image has no statistic 'std'"),
    ],
)
def test_bad_statistics_name_the_feature(
    dataset: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    broken = _broken(dataset, tmp_path, change)
    with pytest.raises(UserError, match=message):
        make(broken, replace(small_specs.act(), imagenet_statistics=False), datasets=[source(broken)])


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ({"image_sizes": {"front": (24, 32)}}, {}, "24 x 24, the plan says 24 x 32"),
        ({"action_dim": 4}, {}, "the model's action has 4 dimensions"),
        (
            {"cameras": ("front", "wrist"), "image_sizes": {"front": (24, 24), "wrist": (24, 24)}},
            {},
            "the policy has front, wrist",
        ),
        ({}, {"cameras": {"front": "observation.images.top"}}, "no feature 'observation.images.top'"),
    ],
)
def test_what_does_not_fit_is_refused(
    dataset: Path, spec: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make(dataset, small_specs.act(**spec), datasets=[source(dataset, **changes)])


def test_an_example_has_the_shapes_of_a_batch(dataset: Path) -> None:
    for spec in (small_specs.act(), small_specs.diffusion()):
        (batch,) = make(dataset, spec).next_update(1)
        example = example_batch(spec, 12)
        assert {n: t.shape for n, t in tensors(example).items()} == {n: t.shape for n, t in tensors(batch).items()}
