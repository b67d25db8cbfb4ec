/**
 * The OpenVLA family: architecture, sizes, published recipes.
 * Sources: openvla/openvla (prismatic/conf/vla.py, prismatic/extern/hf/*, vla-scripts/finetune.py), openvla/openvla-7b's config.json,
 * moojink/openvla-oft. Sizes are held equal to the real classes by a test.
 */

/** OpenVLA-7B. */
export const openvla = {
  /** Number of parameters of openvla/openvla-7b. */
  parameters: 7_541_237_184,
  /** Of those, the ones that never receive a gradient: each tower's last block and norm, and SigLIP's pooling head. */
  dead: 43_080_480,
  cameras: ['primary'],
  vision: {
    towers: [
      { name: 'vit_large_patch14_reg4_dinov2.lvd142m', imageSize: 224, layer: -2 },
      { name: 'vit_so400m_patch14_siglip_224', imageSize: 224, layer: -2 },
    ],
    fuse: 'channels',
  },
  projector: { kind: 'fusedMlp' },
  language: {
    /** Llama-2-7B with one padding token, the embedding padded to a multiple of 64. */
    config: {
      model_type: 'llama',
      vocab_size: 32_064,
      pad_token_id: 32_000,
      hidden_size: 4096,
      intermediate_size: 11_008,
      num_hidden_layers: 32,
      num_attention_heads: 32,
    },
    /** Tokens of the tokenizer; the action bins are the last 256 of them. */
    actionVocabulary: 32_000,
    /** `</s>`, predicted behind the last action token. */
    stopToken: 2,
  },
  action: { decoder: 'tokens', bins: 256, chunk: 1 },
  mask: 'causal',
  prompt: 'In: What action should the robot take to {instruction}?\nOut:',
  promptLower: true,
  /** The lone space that precedes the actions in training (predict_action appends it). */
  promptTrailingToken: 29_871,
  normalization: { action: 'quantiles', clip: true },
} as const

/** What OpenVLA was trained with: prismatic/conf/vla.py, common to all its configurations. */
export const openvlaRecipe = {
  lr: 2e-5,
  weightDecay: 0,
  schedule: 'constant',
  warmup: 0,
  clip: 1,
  betas: [0.9, 0.999],
  dtype: 'bf16',
  /** Modules whose blocks are recomputed. */
  recomputed: ['language'],
  source: 'openvla/openvla prismatic/conf/vla.py, prismatic/training/strategies/fsdp.py',
} as const

/** What its LoRA script does: vla-scripts/finetune.py. */
export const openvlaLora = {
  lr: 5e-4,
  weightDecay: 0.01, // torch's default, since the script passes none
  schedule: 'constant',
  rank: 32,
  alpha: 16, // min(rank, 16)
  dropout: 0,
  /**
   * The layers that the published adapters sit on, by module, as explicit targets.
   *
   * The script asks peft 0.11.1 for `all-linear`, which collects the last components of the linears' names: so `proj` also takes the
   * convolution of the patch embedding, the output head is adapted, and so are dead layers. `adapt: lora({ rank: 32 })` without targets
   * takes the live linears alone; with these targets it adds as many parameters as the published adapters have.
   */
  targets: {
    vision: ['qkv', 'proj', 'q', 'kv', 'fc1', 'fc2'],
    projector: ['fc1', 'fc2', 'fc3'],
    language: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj', 'lm_head'],
  },
  /** Number of parameters of the published rank-32 adapters. */
  parameters: 110_828_288,
  source: 'openvla/openvla vla-scripts/finetune.py, with peft 0.11.1',
} as const

/** OpenVLA-OFT's head: moojink/openvla-oft prismatic/models/action_heads.py. */
export const openvlaRegression = { hidden: 4096, blocks: 2, queries: 'zero', mask: 'full' } as const
