"""Policies: the tiny Qwen2, its tokenizer and base training, and the samplers."""
