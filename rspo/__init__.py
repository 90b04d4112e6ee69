"""RSPO: risk-seeking policy optimization for Pass@k and Max@k."""

__version__ = "0.1.0"
