"""What a resumed run keeps, what may change, and how a run ends."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Project, Settings, assert_same
from safetensors.torch import load_file
from vla_runtime.checkpoints import complete_checkpoints, read_tensors

Undisturbed = Callable[[Settings], Project]


def checkpoint_json(project: Project, step: int, name: str) -> dict[str, Any]:
    return json.loads((project.checkpoints / f"step-{step:08d}" / name).read_text())


@pytest.mark.parametrize("update", [1, 2, 3], ids=["before the boundary", "at it", "after it"])
def test_stopped_by_a_signal_and_resumed_around_a_freeze_boundary(
    project: Project, undisturbed: Undisturbed, update: int
) -> None:
    stopped = project.launch(stop=update)
    assert stopped.status == 128 + signal.SIGTERM, stopped.output
    assert f"SIGTERM: stopped after {update + 1} of 6 updates." in stopped.output
    assert complete_checkpoints(project.checkpoints)[0].name == f"step-{update + 1:08d}"
    states = {name for name, _ in read_tensors(complete_checkpoints(project.checkpoints)[0], "optimizer.")}
    assert any(name.startswith("vision_backbone") for name in states) == (update == 3)  # state only of what has trained
    assert not any("blocks.3." in name for name in states)  # the dead block has none
    resumed = project.launch()
    assert resumed.status == 0, resumed.output
    assert "jumps" not in resumed.output
    assert project.curve() == undisturbed(Settings()).curve()
    assert_same(project.weights(), undisturbed(Settings()).weights())


@pytest.mark.parametrize(
    "settings",
    [Settings(strategy="gradOp"), Settings(strategy="ddp", freeze=0), Settings(lora=2)],
    ids=["gradOp", "ddp", "lora"],
)
def test_other_ways_of_distributing_and_adapters(tmp_path: Path, undisturbed: Undisturbed, settings: Settings) -> None:
    project = Project(tmp_path / "project", settings)
    assert project.launch(stop=2).status == 143
    assert project.launch().status == 0
    assert project.curve() == undisturbed(settings).curve()
    assert_same(project.weights(), undisturbed(settings).weights())
    adapters = [name for name in project.weights() if ".lora_" in name]
    assert bool(adapters) == bool(settings.lora)
    if settings.lora:
        trained = [name for name in project.weights() if name.startswith("optimizer.language_model")]
        assert trained and all(".lora_" in name for name in trained)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_resumed_with_another_number_of_processes(
    tmp_path: Path, undisturbed: Undisturbed, before: int, after: int
) -> None:
    settings = Settings(dropout=0.0, world=before)  # masks are drawn per process
    project = Project(tmp_path / "project", settings)
    assert project.launch(stop=2).status == 143
    assert complete_checkpoints(project.checkpoints)[0].name == "step-00000003"
    project.rebuild(world=after)
    resumed = project.launch()
    assert resumed.status == 0, resumed.output
    assert f"it was written by {before} processes, this run has {after}" in resumed.output
    reference = undisturbed(replace(settings, world=2))
    assert_same(project.weights(), reference.weights(), tolerance=1e-9)
    for here, there in zip(project.curve(), reference.curve(), strict=True):
        assert here["loss"] == pytest.approx(there["loss"], abs=1e-9)


def test_more_updates_may_be_made_and_the_jump_of_the_learning_rate_is_printed(
    project: Project, undisturbed: Undisturbed
) -> None:
    assert project.launch().status == 0
    again = project.launch()
    assert again.status == 0
    assert "resumed from runs/kill-test/checkpoints/step-00000006: 6 updates are done." in again.output
    assert_same(project.weights(), undisturbed(Settings()).weights())

    project.rebuild(updates=9, warmup=3, freeze=4, every=3, keep=5)  # shares of the run move with it
    longer = project.launch()
    assert longer.status == 0, longer.output
    assert "the learning rate of language jumps here from 0 to " in longer.output
    assert [line["update"] for line in project.curve()] == list(range(9))
    assert complete_checkpoints(project.checkpoints)[0].name == "step-00000009"


def test_a_changed_field_is_refused_by_name_and_accepted_by_name(project: Project) -> None:
    assert project.launch(stop=1).status == 143
    plan = json.loads((project.folder / "plan.json").read_text())
    plan["pipeline"]["modules"][0]["lr"] = 2e-2
    plan["pipeline"]["training"]["globalBatch"] = 24
    plan["pipeline"]["track"] = [{"kind": "tensorboard"}]
    (project.folder / "plan.json").write_text(json.dumps(plan))
    refused = project.launch()
    assert refused.status == 2
    assert "modules.vision.lr: 0.01 in the checkpoint, 0.02 now (may not change)" in refused.output
    assert "training.globalBatch: 12 in the checkpoint, 24 now (may not change)" in refused.output
    assert "track" not in refused.output
    assert refused.output.count("error:") == 1
    assert "Traceback" not in refused.output
    one = project.launch("--allow-change", "modules.vision.lr")
    assert one.status == 2
    assert "modules.vision.lr" not in one.output.partition("Undo the change")[0]
    accepted = project.launch("--allow-change", "modules.vision", "--allow-change", "training.globalBatch")
    assert accepted.status == 0, accepted.output
    wrong = project.launch("--allow-change", "modules.vison.lr")
    assert wrong.status == 2
    assert "--allow-change modules.vison.lr: nothing under that name differs" in wrong.output


def test_fewer_updates_are_refused(project: Project) -> None:
    assert project.launch(stop=1).status == 143
    project.rebuild(updates=5)
    refused = project.launch()
    assert refused.status == 2
    assert "training.updates: 6 in the checkpoint, 5 now (may only grow)" in refused.output


def test_a_stopped_run_starts_no_checkpoint_that_does_not_fit(tmp_path: Path, undisturbed: Undisturbed) -> None:
    project = Project(tmp_path / "project", Settings(grace=0.0))
    stopped = project.launch(stop=2)
    assert stopped.status == 143, stopped.output
    assert "no checkpoint now: it would take about" in stopped.output
    assert [path.name for path in complete_checkpoints(project.checkpoints)] == ["step-00000002"]
    assert project.launch().status == 0
    assert project.curve() == undisturbed(Settings()).curve()
    assert_same(project.weights(), undisturbed(Settings()).weights())


def test_the_launcher_passes_a_signal_on(project: Project, undisturbed: Undisturbed) -> None:
    launch = project.start(slow=2)
    launch.await_output("update 1/6")
    launch.signal(signal.SIGTERM)
    stopped = launch.wait()
    assert stopped.status == 143, stopped.output
    assert "SIGTERM: stopped after" in stopped.output
    assert project.launch().status == 0
    assert project.curve() == undisturbed(Settings()).curve()
    assert_same(project.weights(), undisturbed(Settings()).weights())


def test_the_reference_batch_is_what_the_saved_weights_compute(undisturbed: Undisturbed) -> None:
    from project.model import Batch, build_model
    from project.samples import Samples

    project = undisturbed(Settings())
    newest = complete_checkpoints(project.checkpoints)[0]
    stored = load_file(newest / "reference.safetensors")
    model = build_model().eval()
    model.load_state_dict(dict(read_tensors(newest)))
    empty = torch.zeros(0)
    predicted = model.predict(Batch(stored["state"], empty, empty)).detach()
    torch.testing.assert_close(stored["normalized_actions"], predicted, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        stored["actions"], Samples.denormalize(Samples.__new__(Samples), predicted, []), rtol=0, atol=1e-12
    )
    rest = checkpoint_json(project, 6, "reference.json")
    assert rest["instructions"] == ["reach", "close it"]
    assert rest["datasets"] == ["toy", "toy"]


def test_what_a_checkpoint_holds(undisturbed: Undisturbed) -> None:
    project = undisturbed(Settings())
    weights = project.weights()
    assert "model.vision_backbone.blocks.3.up.weight" in weights  # dead, and there
    assert "model.language_model.seen" in weights
    assert "model.language_model.table" not in weights  # not persistent
    assert weights["optimizer.vision_backbone.blocks.1.up.weight.step"].item() == 3  # unfrozen after three updates
    assert weights["optimizer.action_head.weight.step"].item() == 6
    training = checkpoint_json(project, 6, "training.json")
    assert training["data"] == {"samples": 72}
    assert training["phases"]["vision"] == 1
    assert checkpoint_json(project, 6, "plan.json") == json.loads((project.folder / "plan.json").read_text())
    lines = (project.run / "metrics.jsonl").read_bytes()
    assert training["metricsBytes"] == len(lines)
