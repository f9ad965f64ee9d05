"""The version NSQ's clients are told, and what `--version` prints."""

from __future__ import annotations

NSQ_VERSION = "1.3.0"
"""A plain semantic version, because clients and nsqadmin compare its parts as numbers."""


def version_line(program: str) -> str:
    """The line that `--version` prints, in the form of the Go programs.

    One word says what built it, as programs that read this line expect; Penstock's own version
    stands in /info, /metrics and nsqd's log.
    """
    import platform

    return f"{program} v{NSQ_VERSION} (built w/python{platform.python_version()})"
