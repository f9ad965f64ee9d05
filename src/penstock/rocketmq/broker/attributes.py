"""Attributes of topics and groups as 5.x has them, and requests that alter them.

See RocketMQ spec 2.4, codes 17 and 200. A request states alterations: ``+key`` sets an attribute
and ``-key`` removes it. The table, and what readers are answered, has the keys without a sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError

MESSAGE_TYPE: Final = "message.type"
MIXED: Final = "MIXED"
_RESERVE_TIME: Final = "reserve.time"
_LONG_MAX: Final = (1 << 63) - 1
_CHOICES: Final = {
    MESSAGE_TYPE: ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", MIXED),
    # Java's other choices, BatchCQ and COMPACTION, are other forms of storage, which are not here:
    # they are refused, as whoever sets one relies on it.
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
}
_FIXED: Final = ("queue.type", "cleanup.policy")
"""Attributes that Java takes only while a topic is made."""


def parsed(text: str) -> dict[str, str]:
    """The alterations of ``+key=value,-key``, by key with its sign. Raises BodyError."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not key.startswith("+" if equals else "-"):
            verb = "add/alter" if equals else "delete"
            raise BodyError(f"{verb} attribute format is wrong: {key}")
        if key in found:
            raise BodyError(f"key duplication: {key}")
        found[key] = value
    return found


def altered(
    current: Mapping[str, str] | None,
    wanted: Mapping[str, str],
    check: Callable[[str, str], None] | None = None,
) -> dict[str, str]:
    """The attributes after these alterations; ``current`` is None where nothing has been made yet.

    ``check`` gets each key that changes, with its new value, which is empty if it goes. Raises
    BodyError, in Java's words, and what ``check`` raises.
    """
    found = dict(current or {})
    seen = set()
    for signed, value in wanted.items():
        sign, key = signed[:1], signed[1:]
        # Java refuses keys without a sign. Tools that read a configuration, change another part
        # and put it back send them, so they pass where they alter nothing.
        if found.get(signed) == value:
            continue
        if sign not in ("+", "-"):
            raise BodyError(f"wrong format key: {signed}")
        if not key or "+" in key or "-" in key:
            raise BodyError("kv string format wrong.")
        if key in seen:
            raise BodyError(f"alter duplication key. key: {key}")
        seen.add(key)
        if sign == "-":
            _check_removal(current, key)
        if check is not None:
            check(key, value if sign == "+" else "")
        if sign == "+":
            found[key] = value
        else:
            del found[key]
    return found


def _check_removal(current: Mapping[str, str] | None, key: str) -> None:
    if current is None:
        raise BodyError(f"only add attribute is supported while creating topic. key: {key}")
    if key not in current:
        raise BodyError(f"attempt to delete a nonexistent key: {key}")


def of_topic(current: Mapping[str, str] | None, wanted: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a topic after these alterations.

    Raises BodyError for what no topic can have, RefusedError for mixed types of messages.
    """

    def check(key: str, value: str) -> None:
        if key not in _CHOICES and key != _RESERVE_TIME:
            raise BodyError(f"unsupported key: {key}")
        if current is not None and key in _FIXED:
            raise BodyError(f"attempt to update an unchangeable attribute. key: {key}")
        if value:
            _check_value(key, value)

    return altered(current, wanted, check)


def _check_value(key: str, value: str) -> None:
    if key == _RESERVE_TIME:
        if not value.removeprefix("-").isdecimal() or not -1 <= int(value) <= _LONG_MAX:
            raise BodyError(f"{key} is {value}: value is not in range(-1, {_LONG_MAX})")
    elif value not in _CHOICES[key]:
        raise BodyError(f"{key} is {value}: value is not in set: {', '.join(_CHOICES[key])}")
    elif value == MIXED:
        # As Java's broker does unless enableMixedMessageType is set.
        raise RefusedError(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
