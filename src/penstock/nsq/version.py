"""The version NSQ's clients are told, and what `--version` prints."""

from __future__ import annotations

NSQ_VERSION = "1.3.0"
"""A plain semantic version, because clients and nsqadmin compare its parts as numbers."""


def version_line(program: str) -> str:
    """The line that `--version` prints, in the form of the Go programs."""
    import platform

    from penstock import __version__

    built = f"penstock{__version__} python{platform.python_version()}"
    return f"{program} v{NSQ_VERSION} (built w/{built})"
