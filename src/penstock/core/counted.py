"""Counts of things as people read them: "1 message", "2,000 messages"."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """The number with its thousands apart, and the noun, which takes an s unless it is one."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
