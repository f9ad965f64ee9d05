"""Versions of file formats: a later Penstock's file is refused, never taken for a damaged one."""

from __future__ import annotations

from penstock.core.errors import LaterFormatError


def check_version(path: str, version: int, newest: int) -> None:
    """Raise LaterFormatError if the file's version is above the newest that is known."""
    if version > newest:
        raise LaterFormatError(
            f"{path} has format {version}, of a later Penstock; this one reads "
            f"up to {newest}: start the later one again, or restore a backup "
            "from before it"
        )
