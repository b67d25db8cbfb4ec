"""The architecture: the LeRobot policy act.

train.py, pack.py, evaluate.py and the packages build the model from here.
Written by `vla build` 0.1.0 from pipeline.ts (plan dd67b1b2). Change pipeline.ts and build again; hooks.py is yours.
"""

from lerobot.policies.pretrained import PreTrainedPolicy

from vla_runtime.policies.spec import PolicySpec, build_policy

POLICY = PolicySpec(
    type="act",
    cameras=("image",),
    image_sizes={"image": (64, 64)},  # As the dataset has them; the policy resizes where it needs another size
    state_dim=4,
    action_dim=4,
    config={
        "chunk_size": 16,
        "dim_feedforward": 256,
        "dim_model": 128,
        "n_action_steps": 16,
        "n_encoder_layers": 2,
        "n_heads": 4,
        "n_vae_encoder_layers": 1,
        "pretrained_backbone_weights": None,
    },
    # LeRobot's configuration of the policy
    normalization={"STATE": "MEAN_STD", "ACTION": "MEAN_STD", "VISUAL": "MEAN_STD"},
    imagenet_statistics=True,  # LeRobot's act
    padding="masked",  # Actions beyond the end of an episode are no demonstrations
)


def build_model() -> PreTrainedPolicy:
    """LeRobot's own class, initialised as LeRobot does."""
    return build_policy(POLICY)
