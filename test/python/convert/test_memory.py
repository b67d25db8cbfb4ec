"""A checkpoint is converted and verified in less memory than 1.3 times its size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from openpi_fixtures import CAMERA_MAP
from orbax_files import write_params
from vla_convert.keys import leaf_shapes
from vla_convert.sizes import Gemma, Sizes, Vision

# Proportions of the real one: of 13 GB the largest leaf, which is read at once, is 4.8 GB.
SIZES = Sizes(
    "pi0",
    language=Gemma(512, 9, 6144, 8, 1, 64),
    expert=Gemma(256, 9, 1024, 8, 1, 64),
    vision=Vision(32, 1, 128, 2, 14, 256),
    vocabulary=80_000,
    action_dim=32,
    state_dim=32,
)
LIMIT = 1.3


def test_memory_stays_under_the_checkpoints_size(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    leaves = {
        name: draw.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        for name, shape in leaf_shapes(SIZES).items()
    }
    size = sum(values.nbytes for values in leaves.values())
    assert size > 500e6
    write_params(tmp_path / "1" / "params", leaves)
    del leaves
    assets = tmp_path / "1" / "assets" / "robot"
    assets.mkdir(parents=True)
    statistics = {"mean": [0.0] * 7, "std": [1.0] * 7}
    (assets / "norm_stats.json").write_text(json.dumps({"norm_stats": {"state": statistics, "actions": statistics}}))
    request = {
        "from": {"layout": "openpi", "path": str(tmp_path / "1")},
        "to": {"layout": "lerobot", "path": str(tmp_path / "out")},
        "chunk": 4,
        "tokenizer_length": 8,
        "cameras": {**CAMERA_MAP, "left_wrist_0_rgb": "none", "right_wrist_0_rgb": "none"},
        "delta_actions": "none",
        "tokenizer": "hub",
        "other_sizes": True,
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    root = Path(__file__).parents[3] / "templates"
    environment = os.environ | {
        "PYTHONPATH": f"{root / 'convert'}{os.pathsep}{root / 'runtime'}",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "vla_convert", str(tmp_path / "request.json"), str(tmp_path / "report.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["conversion"]["from"]["bytes"] == size
    assert report["verification"]["agrees"]
    for part in ("conversion", "verification"):
        memory = report[part]["memoryBytes"]
        share = (memory["peak"] - memory["libraries"]) / size
        print(f"{part}: {share:.2f} of {size / 1e6:.0f} MB beside the libraries' {memory['libraries'] / 1e6:.0f} MB")
        assert 0.05 < share < LIMIT, part


def test_the_peak_is_the_process_own() -> None:
    """The rusage of a started process begins with what the starting one held."""
    held = bytearray(400 * 2**20)
    held[:: 2**12] = b"x" * (len(held) // 2**12)
    root = Path(__file__).parents[3] / "templates" / "convert" / "vla_convert" / "memory.py"
    code = f"import runpy; print(runpy.run_path({str(root)!r})['peak']())"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert len(held) and int(done.stdout) < 200 * 2**20
