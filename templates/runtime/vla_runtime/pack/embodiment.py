"""What a robot has to know of a policy beside its weights: names, units, limits, rate and cameras of one dataset."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..policies.spec import ACTION, IMAGES, STATE, PolicySpec

LIMITS = ("min", "max", "q01", "q99")


def dataset_info(dataset: Mapping[str, Any], root: str | None) -> dict[str, Any] | None:
    """The dataset's meta/info.json, from its directory or LeRobot's cache; None where it is not at hand."""
    if root is not None:
        path = Path(root) / "meta" / "info.json"
        return json.loads(path.read_text()) if path.is_file() else None
    if dataset["repo"] is None:
        return None
    from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata

    try:
        meta: Any = LeRobotDatasetMetadata(dataset["repo"], revision=dataset["revision"])
    except Exception:  # not in the cache and not to be had: hub, network and LeRobot raise many types
        return None
    return {"features": dict(meta.features), "robot_type": meta.robot_type, "fps": meta.fps}


def embodiment(
    spec: PolicySpec,
    config: Any,
    dataset: Mapping[str, Any],
    recipes: Mapping[str, Mapping[str, Any]],
    info: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The content of embodiment.json.

    Args:
        spec: the declaration.
        config: LeRobot's configuration of the policy.
        dataset: its node of the plan.
        recipes: how the dataset's features are normalised.
        info: its meta/info.json; without it nobody knows names and units, and they are null.

    Returns:
        Rates are in Hz; limits are what the dataset's statistics say, in its own units.
    """
    features: Mapping[str, Any] = {} if info is None else info["features"]

    def dimensions(feature: str, policy_feature: str, width: int) -> list[dict[str, Any]]:
        known = dataset["statistics"] if "unknown" not in dataset["statistics"] else {}
        statistics = known.get(feature) or dict(recipes.get(policy_feature, {}).get("statistics", {}))
        described = features.get(feature, {})
        names, units = (_per_dimension(described.get(key), width) for key in ("names", "units"))
        return [
            {
                "name": names[i],
                "unit": units[i],
                **{key: statistics[key][i] if key in statistics else None for key in LIMITS},
            }
            for i in range(width)
        ]

    fps = dataset["fps"] if not isinstance(dataset["fps"], dict) else (info or {}).get("fps")
    state = None
    if spec.state_dim:
        state = {
            "feature": dataset["state"],
            "policyFeature": STATE,
            "dimensions": dimensions(dataset["state"], STATE, spec.state_dim),
        }
    return {
        "policy": {"type": spec.type, "plugin": spec.plugin},
        "dataset": {key: dataset[key] for key in ("name", "repo", "revision", "episodes", "frames", "fingerprint")},
        "robotType": None if info is None else info.get("robot_type"),
        "controlRateHz": fps,
        "cameras": {
            camera: {
                "feature": dataset["cameras"][camera],
                "policyFeature": f"{IMAGES}.{camera}",
                "height": spec.image_sizes[camera][0],
                "width": spec.image_sizes[camera][1],
            }
            for camera in spec.cameras
        },
        "state": state,
        "action": {
            "feature": dataset["action"],
            "policyFeature": ACTION,
            "relativeToState": bool(getattr(config, "use_relative_actions", False)),
            "dimensions": dimensions(dataset["action"], ACTION, spec.action_dim),
        },
        "observationSteps": len(config.observation_delta_indices or [0]),
        "actionSteps": getattr(config, "n_action_steps", None),
    }


def _per_dimension(values: Any, width: int) -> list[str | None]:
    """A list with an entry for each dimension; LeRobot's names may be a list, a dictionary of one, or nothing."""
    if isinstance(values, Mapping) and len(values) == 1:
        values = next(iter(values.values()))
    if isinstance(values, list) and len(values) == width:
        return [str(value) for value in values]
    return [None] * width
