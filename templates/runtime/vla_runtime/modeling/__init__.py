"""The model: flat files that import only torch, transformers, timm, tokenizers, numpy, safetensors and each other.

They are copied flat into a packaged directory, so that the policy loads without this package.
"""
