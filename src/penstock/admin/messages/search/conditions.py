"""The conditions of a search: a text, a regular expression, or a field of JSON.

A stranger may send the condition, and the daemon must go on serving: expressions are RE2's, which
take time in proportion to the text, and expressions and searched parts of bodies have a limit.

A condition on a field is ``$.order.items[*].sku = "A-17"`` or ``total > 100``. Its path has names
(``.name``, ``["any name"]``), places of an array (``[0]``) and ``[*]`` or ``.*`` for all there are;
the ``$`` in front may be left out. Without an operator the field must be there, else some value at
the path must be so. A value is JSON; anything else stands for itself as text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.malformed import MALFORMED
from penstock.net.http.server.v1_api import ApiError

Condition = Callable[[bytes], bool]

LENGTH_MAX: Final = 1000
"""Characters of a condition."""
BODY_MAX: Final = 256 * 1024
"""Bytes of a body that are looked at."""
_PROGRAM_MAX: Final = 2000
"""Instructions of an expression: it takes time in proportion to these, too."""
_MEMORY: Final = 1 << 20
STEPS_MAX: Final = 32
_ALL: Final = object()
_STEP: Final = re.compile(
    r"""\.?(?P<name>[A-Za-z_][\w-]*)|\[(?P<place>[0-9]{1,9})\]|(?P<all>\.\*|\[\*\])"""
    r"""|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
)
_REST: Final = re.compile(r"\s*(?:(?P<sign>==|!=|<=|>=|=|<|>)\s*(?P<value>.*\S)\s*)?", re.DOTALL)
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


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
    # RE2 would write to stderr by itself, between the lines of the log.
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
    "text": _text,
    "regex": _regex,
    "json": _json,
}


class PathError(ValueError):
    """The text is not a condition; the error names the place of the mistake."""


class JsonCondition(NamedTuple):
    """A path with what a value there must be; an empty ``sign``: there is one."""

    steps: tuple[Any, ...]
    sign: str
    value: Any
    text: str
    """The value as it was given."""

    @classmethod
    def parse(cls, given: str) -> JsonCondition:
        """Parse a condition on a field. Raises PathError."""
        at = 1 if given.startswith("$") else 0
        steps: list[Any] = []
        while (found := _STEP.match(given, at)) is not None and len(steps) < STEPS_MAX:
            steps.append(_step(found))
            at = found.end()
        rest = _REST.fullmatch(given, at)
        if rest is None or not (steps or at):
            raise PathError(f"not understood from {given[at : at + 20]!r} on")
        text = rest["value"] or ""
        return cls(tuple(steps), (rest["sign"] or "").replace("==", "="), _value(text), text)

    def __call__(self, body: bytes) -> bool:
        """True if this body is JSON and has such a value."""
        try:
            document = msgspec.json.decode(body)
        except MALFORMED:
            return False
        return any(map(self._takes, _values(document, self.steps)))

    def _takes(self, found: Any) -> bool:
        if self.sign in ("=", "!="):
            return self._is_same(found) == (self.sign == "=")
        if not self.sign:
            return True
        if _is_number(self.value):
            return _is_number(found) and _ORDERS[self.sign](found, self.value)
        return isinstance(found, str) and _ORDERS[self.sign](found, self._as_text)

    def _is_same(self, found: Any) -> bool:
        if isinstance(found, str):
            return found == self._as_text
        is_alike = type(found) is type(self.value) or (_is_number(found) and _is_number(self.value))
        return is_alike and bool(found == self.value)

    @property
    def _as_text(self) -> str:
        return self.value if isinstance(self.value, str) else self.text


def _step(found: re.Match[str]) -> Any:
    if found["place"] is not None:
        return int(found["place"])
    if found["all"] is not None:
        return _ALL
    if found["quoted"] is None:
        return found["name"]
    try:
        return msgspec.json.decode(found["quoted"], type=str)
    except MALFORMED:
        raise PathError(f"{found['quoted']} is not JSON text") from None


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except MALFORMED:
        return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(document: Any, steps: tuple[Any, ...]) -> Iterator[Any]:
    """The values at the path: every one is visited once for each step at the most."""
    found = [document]
    for step in steps:
        found = [value for each in found for value in _below(each, step)]
    yield from found


def _below(value: Any, step: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if step is _ALL:
            yield from value.values()
        elif step in value:
            yield value[step]
    elif isinstance(value, list):
        if step is _ALL:
            yield from value
        elif isinstance(step, int) and step < len(value):
            yield value[step]
