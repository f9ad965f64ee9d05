"""The version NSQ's clients are told, and what ``--version`` prints."""

from __future__ import annotations

NSQ_VERSION = "1.3.0"
"""A plain semantic version, because clients and nsqadmin compare its parts as numbers."""


def version_line(program: str) -> str:
    """The line that ``--version`` prints, in the form of the Go programs.

    Programs that parse this line expect one word after "built w/". Penstock's own version is in
    /info, /metrics and nsqd's log.
    """
    import platform

    return f"{program} v{NSQ_VERSION} (built w/python{platform.python_version()})"
