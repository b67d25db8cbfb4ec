"""The global order, and that what belongs to a sample depends on nothing else."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from dataset_fixture import LENGTHS, make_config, write_dataset
from torch import Tensor
from vla_runtime.augment import Augmentation
from vla_runtime.data import Dataset, Samples
from vla_runtime.errors import UserError
from vla_runtime.modeling.batch import Batch

Make = Callable[..., Samples]
TOTAL = sum(LENGTHS)


def spec(root: Path, **changes: object) -> Dataset:
    values: dict[str, object] = {
        "name": "one",
        "cameras": {"front": "observation.image"},
        "state": "observation.state",
        "action": "action",
        "root": str(root),
    }
    return Dataset(**{**values, **changes})  # type: ignore[arg-type]


def tensors(batch: Batch) -> dict[str, Tensor]:
    found: dict[str, Tensor | None] = {"image": batch.images["front"], "prompt": batch.prompt, "state": batch.state, "actions": batch.actions,
                                       "valid": batch.valid, "noise": batch.noise, "time": batch.time}  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(("world", "micro"), [(1, 4), (2, 6), (2, 3), (3, 2)])
def test_ranks_and_micro_batches_share_one_global_batch(samples: Make, world: int, micro: int) -> None:
    augmentation = Augmentation(crop=0.8, brightness=0.2, contrast=0.2, saturation=0.2, hue=0.05)
    whole = samples(augmentation=augmentation)
    parts = [samples(rank, world, micro, augmentation=augmentation) for rank in range(world)]
    for _ in range(2):
        (reference,) = whole.next_update(1)
        seen: list[int] = []
        for part in parts:
            for batch in part.next_update(12 // (world * micro)):
                assert batch.positions is not None
                seen += batch.positions.tolist()
                for name, value in tensors(batch).items():
                    assert torch.equal(value, tensors(reference)[name][batch.positions]), name
        assert sorted(seen) == list(range(12))


def test_an_epoch_shows_every_frame_once(samples: Make) -> None:
    data = samples()
    shown = [tuple(row) for _ in range(TOTAL) for row in tensors(data.next_update(1)[0])["state"].tolist()]
    assert len(shown) == 12 * TOTAL  # twelve epochs
    for epoch in range(12):
        assert len(set(shown[epoch * TOTAL : (epoch + 1) * TOTAL])) == TOTAL
    assert shown[:TOTAL] != shown[TOTAL : 2 * TOTAL]


@pytest.mark.parametrize("workers", [0, 2])
def test_resumes_with_another_number_of_ranks(samples: Make, workers: int) -> None:
    whole = samples()
    batches = [whole.next_update(1)[0] for _ in range(4)]
    later = samples(1, 2, 6, workers=workers)
    later.load_state({"samples": 36})
    (batch,) = later.next_update(1)
    for name, value in tensors(batch).items():
        assert torch.equal(value, tensors(batches[3])[name][6:]), name
    assert later.state() == {"samples": 48}


def test_noise_and_time_differ_between_samples_and_updates(samples: Make) -> None:
    data = samples()
    first, second = data.next_update(1)[0], data.next_update(1)[0]
    noise = torch.cat([tensors(first)["noise"], tensors(second)["noise"]])
    assert len({tuple(row.flatten().tolist()) for row in noise}) == 24
    time = torch.cat([tensors(first)["time"], tensors(second)["time"]])
    assert len(set(time.tolist())) == 24
    assert bool((time > 0).all()) and bool((time <= 1).all())


def test_a_mixture_follows_its_weights_and_repeats_no_frame_within_an_epoch(samples: Make, dataset: Path) -> None:
    data = samples(datasets=[spec(dataset, name="a", weight=1.0), spec(dataset, name="b", weight=2.0)])
    names = [name for _ in range(50) for name in data.next_update(1)[0].dataset]
    assert abs(names.count("b") / len(names) - 2 / 3) < 0.01
    resumed = samples(datasets=[spec(dataset, name="a", weight=1.0), spec(dataset, name="b", weight=2.0)])
    resumed.load_state({"samples": 12 * 50})
    assert torch.equal(tensors(resumed.next_update(1)[0])["state"], tensors(data.next_update(1)[0])["state"])


def test_chunks_end_with_their_episode(samples: Make) -> None:
    data = samples()
    source = data._sources[0]
    starts = np.cumsum([0, *LENGTHS])
    for episode, frame in itertools.product(range(len(LENGTHS)), range(5)):
        index = int(starts[episode]) + frame
        actions, valid = source.actions(index, 4)
        left = LENGTHS[episode] - frame
        assert valid.tolist() == [step < left for step in range(4)]
        last = source._actions[int(starts[episode + 1]) - 1]
        assert all(torch.equal(actions[step], last) for step in range(left, 4))


def test_pictures_are_decoded_bit_for_bit(samples: Make) -> None:
    source = samples()._sources[0]
    starts = np.cumsum([0, *LENGTHS])
    for episode, start in enumerate(starts[:-1]):
        image = source.image("front", int(start) + 3)
        assert image.dtype == torch.uint8 and image.shape == (3, 24, 24)
        assert image[0, 0, :2].tolist() == [episode, 3]


def test_held_out_episodes_are_seen_once_and_never_trained_on(samples: Make, dataset: Path) -> None:
    held = [spec(dataset, holdout=[1, 3])]
    trained = samples(datasets=held)
    modes = trained._view.normalizers["one"]["state"]
    states = {
        tuple(modes.inverse(row).round().int().tolist())
        for _ in range(20)
        for row in tensors(trained.next_update(1)[0])["state"]
    }
    assert {episode for episode, _ in states} == {0, 2}
    shown = []
    for rank in range(2):
        for batch in samples(rank, 2, 3, datasets=held).holdout():
            counted = tensors(batch)["valid"].any(dim=1)
            shown += [tuple(modes.inverse(row).round().int().tolist()) for row in tensors(batch)["state"][counted]]
    assert sorted(shown) == [(1, frame) for frame in range(5)] + [(3, frame) for frame in range(6)]


def test_evaluation_sees_the_centre_crop_that_training_cropped(samples: Make, dataset: Path) -> None:
    from vla_runtime.modeling.images import center_crop, resize

    data = samples(datasets=[spec(dataset, holdout=[0])], augmentation=Augmentation(crop=0.25))
    reference = data.reference_batch()
    assert reference.batch.images["front"].shape[-1] == 16
    assert torch.equal(reference.batch.images["front"], resize(center_crop(reference.images["front"], 0.25), 16))
    assert center_crop(reference.images["front"], 0.25).shape[-1] == 12


def test_reference_actions_return_to_the_datasets_units(samples: Make) -> None:
    data = samples()
    reference = data.reference_batch()
    assert reference.batch.actions is not None
    raw = data.denormalize(reference.batch.actions, reference.datasets)
    source = data._sources[0]
    frames = [int(i) for i in np.linspace(0, TOTAL - 1, 4).round()]
    expected = torch.stack([source.actions(frame, 4)[0] for frame in frames])
    torch.testing.assert_close(raw, expected, rtol=0, atol=1e-6)


class TestBadInput:
    """Each a message that names what, where and how to fix."""

    def test_not_a_dataset(self, samples: Make, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"nowhere is not a LeRobot dataset \(no meta/info.json"):
            samples(datasets=[spec(tmp_path / "nowhere")])

    def test_missing_camera(self, samples: Make, dataset: Path) -> None:
        with pytest.raises(
            UserError, match=r"no feature 'observation.images.wrist' \(for front\). It has .*observation.image"
        ):
            samples(datasets=[spec(dataset, cameras={"front": "observation.images.wrist"})])

    def test_action_width(self, samples: Make) -> None:
        with pytest.raises(UserError, match=r"'action' has shape \[3\], the model's action has 7 dimensions"):
            samples(config=make_config(action_dim=7))

    def test_truncated_parquet(self, samples: Make, dataset: Path, tmp_path: Path) -> None:
        shutil.copytree(dataset, tmp_path / "cut")
        (file,) = (tmp_path / "cut" / "data").rglob("*.parquet")
        file.write_bytes(file.read_bytes()[:-200])
        with pytest.raises(UserError, match=r"cannot be opened.*(cut off|copy it again)"):
            samples(datasets=[spec(tmp_path / "cut")])

    def test_missing_statistic(self, samples: Make, dataset: Path, tmp_path: Path) -> None:
        shutil.copytree(dataset, tmp_path / "old")
        path = tmp_path / "old" / "meta" / "stats.json"
        statistics = json.loads(path.read_text())
        del statistics["action"]["q01"]
        path.write_text(json.dumps(statistics))
        with pytest.raises(UserError, match=r"action has no statistic 'q01'.*augment_dataset_quantile_stats"):
            samples(datasets=[spec(tmp_path / "old")], normalize_action="quantiles")

    def test_non_finite_statistic(self, samples: Make, dataset: Path, tmp_path: Path) -> None:
        shutil.copytree(dataset, tmp_path / "inf")
        path = tmp_path / "inf" / "meta" / "stats.json"
        statistics = json.loads(path.read_text())
        statistics["action"]["max"][2] = float("inf")
        path.write_text(json.dumps(statistics))
        with pytest.raises(
            UserError, match=r"action: the statistic 'max' is not finite in dimensions \[2\].*2 joint_2"
        ):
            samples(datasets=[spec(tmp_path / "inf")])

    def test_constant_dimension(self, samples: Make, tmp_path: Path) -> None:
        root = write_dataset(tmp_path / "constant", constant=True)
        with pytest.raises(UserError, match=r"action: dimensions \[1\] never change.*constant: 'pass'.*1 joint_1"):
            samples(datasets=[spec(root)])
        zero = samples(datasets=[spec(root)], constant="zero").next_update(1)[0]
        assert zero.actions is not None and bool((zero.actions[..., 1] == 0).all())
        kept = samples(datasets=[spec(root)], constant="pass").next_update(1)[0]
        assert kept.actions is not None and bool((kept.actions[..., 1] == 0.5).all())

    def test_everything_held_out(self, samples: Make, dataset: Path) -> None:
        with pytest.raises(UserError, match="every episode is held out"):
            samples(datasets=[spec(dataset, holdout=[0, 1, 2, 3])])

    def test_holdout_that_does_not_exist(self, samples: Make, dataset: Path) -> None:
        with pytest.raises(UserError, match=r"held-out episodes \[9\] do not exist"):
            samples(datasets=[spec(dataset, holdout=[9])])

    def test_long_instruction(self, samples: Make) -> None:
        with pytest.raises(UserError, match=r"has \d+ tokens, but prompts are padded to 8"):
            samples(config=make_config(prompt_tokens=8)).next_update(1)
