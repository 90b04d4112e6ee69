"""Policies: the tiny Qwen2, published models, their tokenizers, and the samplers."""
