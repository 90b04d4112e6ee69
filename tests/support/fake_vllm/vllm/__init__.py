"""Replaces vLLM where this folder's parent is on PYTHONPATH: only its server, without a model."""
