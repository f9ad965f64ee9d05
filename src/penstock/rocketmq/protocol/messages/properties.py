r"""A message's properties as text: ``name \x01 value \x02`` repeated (RocketMQ spec 3.3).

Some clients leave out the last ``\x02``; both are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
BYTES_MAX: Final = 32767
"""The length is a signed short in a stored message."""

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
TRANSACTION: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
UNIQUE_KEY: Final = "UNIQ_KEY"
CHECK_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
CLUSTER: Final = "CLUSTER"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMERS: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
POP_CK: Final = "POP_CK"
"""The receipt of a popped message, which its consumer has put there; a broker stores none."""
PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"

_DIGITS_MAX: Final = 18


def parse(text: str) -> dict[str, str]:
    """Names and values; entries without either are dropped, of equal names the last counts."""
    found: dict[str, str] = {}
    for entry in text.split(VALUE_END):
        name, end, value = entry.partition(NAME_END)
        # Java's parser drops an entry without a name or a value, so no client relies on one.
        if end and name and value:
            found[name] = value
    return found


def join(properties: Mapping[str, str]) -> str:
    r"""The text of these properties, each ended by ``\x02``."""
    return "".join(
        f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items() if value
    )


def without(text: str, name: str) -> str:
    """The text without one property, which it has at most once."""
    found = _find(text, name)
    if found < 0:
        return text
    end = text.find(VALUE_END, found)
    # Java 4.9 leaves out the last \x02, so a property may end with the text.
    return text[:found] + text[end + 1 :] if end >= 0 else text[:found]


def number(text: str | None) -> int | None:
    """A value that is a whole number of at most 18 digits, without sign; None for any other."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        return None
    return int(text)


def _find(text: str, name: str) -> int:
    """The start of a property; -1 when it is not there."""
    mark = name + NAME_END
    if text.startswith(mark):
        return 0
    found = text.find(VALUE_END + mark)
    return found + 1 if found >= 0 else -1


def value_of(text: str, name: str) -> str | None:
    """One property, without reading the others; None when it is missing or empty."""
    found = _find(text, name)
    if found < 0:
        return None
    start = found + len(name) + 1
    end = text.find(VALUE_END, start)
    return (text[start:] if end < 0 else text[start:end]) or None
