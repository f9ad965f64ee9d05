"""The topics that ``--topic-pattern`` selects: those in which RE2 finds it, anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.quote import quote
from penstock.nsq.tools.errors import ToolError


def matcher(pattern: str) -> Callable[[str], bool]:
    """A function that says if a topic matches; without a pattern, all of them do."""
    if not pattern:
        return lambda topic: True
    compiled = _compiled(pattern)
    return lambda topic: compiled.search(topic) is not None


def check_pattern(pattern: str) -> None:
    """Raise ToolError for a text that is not a regular expression: no topic could ever match."""
    if pattern:
        _compiled(pattern)


def _compiled(pattern: str) -> Any:
    import re2  # only those who use it pay for it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ToolError(f"invalid --topic-pattern {quote(pattern)}: {text}") from None
    except UnicodeEncodeError:  # surrogates, which stand for the command line's bytes
        raise ToolError(f"invalid --topic-pattern {quote(pattern)}: invalid UTF-8") from None
