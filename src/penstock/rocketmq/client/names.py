"""Names of topics and groups: what they may be, their namespaces, and those that brokers make."""

from __future__ import annotations

import re
from typing import Final

from penstock.core.quote import quote
from penstock.rocketmq.client.errors import BadName

TOPIC_LENGTH_MAX: Final = 127
GROUP_LENGTH_MAX: Final = 255
RETRY: Final = "%RETRY%"
DEAD: Final = "%DLQ%"
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_FORBIDDEN: Final = frozenset(
    (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    )
)
_DEFAULT_GROUPS: Final = ("DEFAULT_PRODUCER", "DEFAULT_CONSUMER")


def checked_topic(name: str) -> str:
    """The name if it can be a topic's. Raises BadName."""
    return _checked(name, "topic", TOPIC_LENGTH_MAX)


def checked_destination(name: str) -> str:
    """The name if it can be a topic's to which clients send. Raises BadName."""
    if name in _FORBIDDEN:
        raise BadName(f"Sending message to topic[{name}] is forbidden: it is the broker's own")
    return checked_topic(name)


def checked_group(name: str) -> str:
    """The name if it can be a group's. Raises BadName."""
    if name in _DEFAULT_GROUPS:
        raise BadName(f"the group can not equal {name}, please specify another one")
    return _checked(name, "group", GROUP_LENGTH_MAX)


def _checked(name: str, kind: str, most: int) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} is a str, not {type(name).__name__}")
    if not name.strip():
        raise BadName(f"The specified {kind} is blank")
    if len(name) > most:
        raise BadName(
            f"The specified {kind} is longer than {kind} max length {most}: {quote(name)}"
        )
    if not _NAME.fullmatch(name):
        raise BadName(
            f"The specified {kind}[{quote(name)}] contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    return name


def retry_topic(group: str) -> str:
    """The topic of messages that the group shall get again."""
    return RETRY + group


def wrap(namespace: str, name: str) -> str:
    """A name as servers know it: ``ns%name``, and ``%RETRY%ns%name`` for a retry topic."""
    if not namespace or _is_system(name):
        return name
    prefix, plain = _split(name)
    return name if plain.startswith(f"{namespace}%") else f"{prefix}{namespace}%{plain}"


def unwrap(namespace: str, name: str) -> str:
    """A name as the program knows it."""
    if not namespace:
        return name
    prefix, plain = _split(name)
    return prefix + plain.removeprefix(f"{namespace}%")


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY, DEAD):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name


def _is_system(name: str) -> bool:
    return name.startswith(("RMQ_SYS_", "CID_RMQ_SYS_")) or name == "TBW102"
