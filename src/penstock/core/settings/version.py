"""The version that NSQ's clients are told, and what ``--version`` prints."""

from __future__ import annotations

from penstock import __version__

NSQ_VERSION = "1.3.0"
"""A plain semantic version, because clients and nsqadmin compare its parts as numbers."""


def go_line(program: str) -> str:
    """The version in the form of the Go programs, with one word after "built w/"."""
    import platform

    return f"{program} v{NSQ_VERSION} (built w/python{platform.python_version()})"


def with_penstock(line: str) -> str:
    """A line of a version, with Penstock's own behind NSQ's."""
    return f"{line} of Penstock {__version__}"


def version_line(program: str) -> str:
    """The version of a daemon."""
    return with_penstock(go_line(program))
