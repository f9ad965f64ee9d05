"""Conditions on a field of a JSON body: ``$.order.items[*].sku = "A-17"``, ``total > 100``.

A path has names (``.name``, ``["any name"]``), places of an array (``[0]``) and ``[*]`` or ``.*``
for all there are; the ``$`` in front may be left out. Without an operator the field must be there,
else some value at the path must be so. A value is JSON; anything else stands for itself as text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.malformed import MALFORMED

STEPS_MAX: Final = 32
_ALL: Final = object()
_STEP: Final = re.compile(
    r"""\.?(?P<name>[A-Za-z_][\w-]*)|\[(?P<place>[0-9]{1,9})\]|(?P<all>\.\*|\[\*\])"""
    r"""|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
)
_REST: Final = re.compile(r"\s*(?:(?P<sign>==|!=|<=|>=|=|<|>)\s*(?P<value>.*\S)\s*)?", re.DOTALL)
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class PathError(ValueError):
    """The text is no condition; the error says from where on it makes no sense."""


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
        raise PathError(f"{found['quoted']} is no JSON text") from None


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
