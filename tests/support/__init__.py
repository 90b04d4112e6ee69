"""What several tests need; no test imports another test."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
