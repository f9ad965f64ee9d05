"""The conditions of a search: a text, a regular expression, or a field of JSON.

A stranger may send the condition, and the daemon must go on serving: expressions are RE2's, which
take time in proportion to the text, and expressions and searched parts of bodies have a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.admin.messages.search.json_path import JsonCondition, PathError
from penstock.net.http.server.api import ApiError

Condition = Callable[[bytes], bool]

LENGTH_MAX: Final = 1000
"""Characters of a condition."""
BODY_MAX: Final = 256 * 1024
"""Bytes of a body that are looked at."""
_PROGRAM_MAX: Final = 2000
"""Instructions of an expression: it takes time in proportion to these, too."""
_MEMORY: Final = 1 << 20


def condition_of(kind: str, what: str) -> Condition:
    """The condition that a search names as ``text``, ``regex`` or ``json``.

    ApiError 400: INVALID_ARG_KIND, MISSING_ARG_WHAT, INVALID_ARG_WHAT with the reason.
    """
    make = _KINDS.get(kind)
    if make is None:
        raise ApiError(400, "INVALID_ARG_KIND")
    if not what:
        raise ApiError(400, "MISSING_ARG_WHAT")
    if len(what) > LENGTH_MAX:
        raise _invalid(f"longer than {LENGTH_MAX} characters")
    return make(what)


def _text(what: str) -> Condition:
    """A search for a text in any case of its letters."""
    return _searching(what, literal=True, case_sensitive=False)


def _regex(what: str) -> Condition:
    return _searching(what)


def _json(what: str) -> Condition:
    try:
        takes = JsonCondition.parse(what)
    except PathError as error:
        raise _invalid(str(error)) from None
    return lambda body: len(body) <= BODY_MAX and takes(body)


def _searching(what: str, *, literal: bool = False, case_sensitive: bool = True) -> Condition:
    import re2  # only those who search pay for it

    options = re2.Options()
    options.literal, options.case_sensitive = literal, case_sensitive
    options.log_errors, options.max_mem = False, _MEMORY
    try:
        compiled: Any = re2.compile(what, options)
    except re2.error as error:
        (reason,) = error.args
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise _invalid(text) from None
    if compiled.programsize > _PROGRAM_MAX:
        raise _invalid("the expression is too large: use smaller counts of repetition")
    return lambda body: compiled.search(body[:BODY_MAX]) is not None


def _invalid(reason: str) -> ApiError:
    return ApiError(400, f"INVALID_ARG_WHAT: {reason}")


_KINDS: Final[dict[str, Callable[[str], Condition]]] = {
    "text": _text, "regex": _regex, "json": _json,
}  # fmt: skip
