"""The Java programs of these tests."""

from __future__ import annotations

from pathlib import Path


def java_source(program: str) -> Path:
    """Its file."""
    return Path(__file__).parent / "java" / f"{program}.java"
