"""Writes the train_config.json files that the importer's tests read, with LeRobot 0.6.1's own classes, as lerobot-train saves them.

    .venv/bin/python test/importer/write_fixtures.py test/importer/fixtures

Beside them `fields.json`: every field of lerobot-train's configuration with its default, which a test holds the importer's tables to.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import draccus
from lerobot.configs.default import DatasetConfig, EvalConfig, JobConfig, PeftConfig, WandBConfig
from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.train import TrainPipelineConfig
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.envs.configs import MetaworldEnv
from lerobot.optim.optimizers import AdamConfig, AdamWConfig, OptimizerConfig, SGDConfig, XVLAAdamWConfig
from lerobot.optim.schedulers import LRSchedulerConfig
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.pi0.configuration_pi0 import PI0Config
from lerobot.policies.pi05.configuration_pi05 import PI05Config
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.xvla.configuration_xvla import XVLAConfig
from lerobot.transforms import ImageTransformsConfig


def features(cameras: dict[str, tuple[int, int]], state: int, action: int) -> dict[str, Any]:
    """Features as make_policy takes them from a dataset."""
    inputs = {name: PolicyFeature(FeatureType.VISUAL, (3, *size)) for name, size in cameras.items()}
    inputs["observation.state"] = PolicyFeature(FeatureType.STATE, (state,))
    return {"input_features": inputs, "output_features": {"action": PolicyFeature(FeatureType.ACTION, (action,))}}


FLORENCE = {
    "vision_config": {
        "model_type": "florence_vision",
        "depths": [1, 1, 9, 1],
        "embed_dim": [256, 512, 1024, 2048],
        "num_heads": [8, 16, 32, 64],
        "num_groups": [8, 16, 32, 64],
        "patch_size": [7, 3, 3, 3],
        "patch_stride": [4, 2, 2, 2],
        "patch_padding": [3, 1, 1, 1],
        "patch_prenorm": [False, True, True, True],
        "window_size": 12,
        "drop_path_rate": 0.1,
        "projection_dim": 1024,
        "max_position_embeddings": 50,
        "max_temporal_embeddings": 100,
    },
    "text_config": {
        "model_type": "bart",
        "vocab_size": 51289,
        "d_model": 1024,
        "max_position_embeddings": 4096,
        "encoder_layers": 12,
        "encoder_ffn_dim": 4096,
        "encoder_attention_heads": 16,
        "decoder_layers": 12,
        "decoder_ffn_dim": 4096,
        "decoder_attention_heads": 16,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    },
}
TOP = {"observation.images.top": (480, 640)}
BASES = {f"observation.images.{name}": (224, 224) for name in ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")}
NUMBERED = {f"observation.images.camera{number}": (256, 256) for number in (1, 2, 3)}


def policies() -> dict[str, tuple[PreTrainedConfig, dict[str, Any]]]:
    """Name of the file -> the policy's configuration and the rest of lerobot-train's."""
    return {
        # lerobot-train --policy.type=act --dataset.repo_id=lerobot/aloha_sim_insertion_human
        "act": (
            ACTConfig(**features(TOP, 14, 14), repo_id="me/act-aloha"),
            {"dataset": DatasetConfig("lerobot/aloha_sim_insertion_human")},
        ),
        "act-metaworld": (
            ACTConfig(
                **features({"observation.image": (64, 64)}, 4, 4),
                push_to_hub=False,
                chunk_size=16,
                n_action_steps=4,
                dim_model=128,
                n_heads=4,
                dim_feedforward=256,
                pretrained_backbone_weights=None,
                optimizer_lr=1e-3,
                optimizer_lr_backbone=1e-4,
            ),
            {
                "dataset": DatasetConfig(
                    "local/reach",
                    root="data/reach",
                    eval_split=0.1,
                    image_transforms=ImageTransformsConfig(enable=True),
                ),
                "env": MetaworldEnv(task="reach-v3"),
                "eval": EvalConfig(n_episodes=10, batch_size=1),
                "batch_size": 64,
                "steps": 4000,
                "save_freq": 1000,
                "eval_steps": 500,
                "num_workers": 0,
                "wandb": WandBConfig(enable=True, project="reach", entity="lab"),
            },
        ),
        "diffusion": (
            DiffusionConfig(
                **features({"observation.image": (96, 96)}, 2, 2),
                repo_id="me/diffusion-pusht",
                horizon=16,
                n_action_steps=8,
                crop_shape=(84, 84),
                use_separate_rgb_encoder_per_camera=False,
                use_amp=True,
            ),
            {"dataset": DatasetConfig("lerobot/pusht"), "batch_size": 64, "steps": 200_000, "seed": 42},
        ),
        # --policy.path=lerobot/smolvla_base: the base's cameras, filled from the data by rename_map
        "smolvla": (
            SmolVLAConfig(
                **features(NUMBERED, 6, 6),
                repo_id="me/smolvla-so101",
                pretrained_path=Path("lerobot/smolvla_base"),
                load_vlm_weights=True,
                empty_cameras=1,
            ),
            {
                "dataset": DatasetConfig("me/so101-pick", video_backend="pyav"),
                "batch_size": 64,
                "steps": 20_000,
                "rename_map": {
                    "observation.images.top": "observation.images.camera1",
                    "observation.images.wrist": "observation.images.camera2",
                },
            },
        ),
        "pi0": (
            PI0Config(
                **features(BASES, 8, 7),
                repo_id="me/pi0-libero",
                pretrained_path=Path("lerobot/pi0_base"),
                pretrained_revision="v1",
                dtype="bfloat16",
                gradient_checkpointing=True,
                compile_model=True,
                freeze_vision_encoder=True,
            ),
            {"dataset": DatasetConfig("lerobot/libero"), "batch_size": 32, "steps": 5000},
        ),
        "pi05": (
            PI05Config(
                **features(BASES, 8, 7),
                repo_id="me/pi05-libero",
                pretrained_path=Path("lerobot/pi05_base"),
                use_relative_actions=True,
                action_feature_names=["x", "y", "z", "roll", "pitch", "yaw", "gripper"],
                chunk_size=10,
                n_action_steps=10,
                optimizer_lr=5e-5,
            ),
            {
                "dataset": DatasetConfig("lerobot/libero"),
                "batch_size": 16,
                "steps": 50_000,
                "peft": PeftConfig(r=32),
            },
        ),
        "xvla": (
            XVLAConfig(
                **features({f"observation.images.{name}": (256, 256) for name in ("image", "image2")}, 8, 7),
                repo_id="me/xvla-libero",
                pretrained_path=Path("lerobot/xvla-base"),
                florence_config=FLORENCE,
                resize_imgs_with_padding=(224, 224),
                action_mode="auto",
                max_state_dim=20,
                num_image_views=3,
                empty_cameras=1,
                freeze_language_encoder=True,
                optimizer_soft_prompt_warmup_lr_scale=0.01,
            ),
            {"dataset": DatasetConfig("lerobot/libero"), "batch_size": 16, "steps": 30_000},
        ),
    }


def defaults(kind: Any) -> dict[str, Any]:
    """Field -> default, as JSON; a field without one is left out."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            found[field.name] = draccus.encode(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = draccus.encode(field.default_factory())
        else:
            found[field.name] = None
    return found


def main(folder: Path) -> None:
    """Writes the files."""
    sys.argv = sys.argv[:1]  # LeRobot's validation reads the command line
    folder.mkdir(parents=True, exist_ok=True)
    for name, (policy, rest) in policies().items():
        config = TrainPipelineConfig(policy=policy, output_dir=Path(f"outputs/train/{name}"), **rest)
        # A rename_map is refused without a pretrained policy; all of these have one.
        config.validate()
        if name != "act-metaworld":
            policy.device = "cuda"  # as on a machine that has one
        validate_features = getattr(policy, "validate_features", None)
        if validate_features is not None:
            validate_features()  # as the policy's constructor does
        with (folder / f"{name}.json").open("w") as file, draccus.config_type("json"):
            draccus.dump(config, file, indent=2)
        with (folder / f"{name}.json").open("a") as file:
            file.write("\n")
    fields = {
        "train": defaults(TrainPipelineConfig),
        "dataset": defaults(DatasetConfig) | {"video_backend": None},
        "image_transforms": defaults(ImageTransformsConfig),
        "eval": defaults(EvalConfig),
        "wandb": defaults(WandBConfig),
        "peft": defaults(PeftConfig),
        "job": defaults(JobConfig),
        "metaworld": defaults(MetaworldEnv),
        "optimizers": {
            OptimizerConfig.get_choice_name(kind): defaults(kind)
            for kind in (AdamConfig, AdamWConfig, SGDConfig, XVLAAdamWConfig)
        },
        "schedulers": {
            name: defaults(LRSchedulerConfig.get_choice_class(name))
            for name in ("diffuser", "constant_with_warmup", "cosine_annealing_with_warmup", "cosine_decay_with_warmup")
        },
        "optimizer_types": sorted(OptimizerConfig.get_known_choices()),
        "scheduler_types": sorted(LRSchedulerConfig.get_known_choices()),
        "policy_types": sorted(PreTrainedConfig.get_known_choices()),
    }
    (folder / "fields.json").write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
