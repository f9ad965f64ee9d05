"""Errors in the bytes of a peer."""

from __future__ import annotations

from penstock.core.errors import PenstockError


class FrameError(PenstockError):
    """Bytes that are not a frame: the stream can no longer be read, so it must be closed."""


class BodyError(PenstockError):
    """The body or a field of a command makes no sense; the connection may go on."""
