"""The mode in which each group has a topic's messages: popping or pulling."""

from __future__ import annotations

from typing import Any, Final

from penstock.rocketmq.protocol.errors import BodyError

FILE: Final = "messageRequestMode.json"
POP: Final = "POP"
PULL: Final = "PULL"


class RequestModes:
    """The mode of each topic and group for which one was set; the others pull."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, tuple[str, int]]] = {}

    def put(self, topic: str, group: str, mode: str, share: int) -> None:
        """``share``: beside how many other members' queues one pops; 0: all of them."""
        self._table.setdefault(topic, {})[group] = (mode, share)

    def of(self, topic: str, group: str) -> tuple[str, int]:
        return self._table.get(topic, {}).get(group, (PULL, 0))

    def forget_topic(self, topic: str) -> None:
        self._table.pop(topic, None)

    def as_json(self) -> dict[str, Any]:
        """The table in the form of the Java classes, which is also that of the file."""
        return {
            "messageRequestModeMap": {
                topic: {
                    group: {
                        "consumerGroup": group,
                        "mode": mode,
                        "popShareQueueNum": share,
                        "topic": topic,
                    }
                    for group, (mode, share) in groups.items()
                }
                for topic, groups in self._table.items()
            }
        }

    def load(self, value: Any) -> None:
        """Take over what was kept. Raises BodyError."""
        table = value.get("messageRequestModeMap") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("request modes without messageRequestModeMap")
        found = RequestModes()
        for groups in table.values():
            for each in groups.values() if isinstance(groups, dict) else ():
                found.put(*wanted(each))
        self._table = found._table


def wanted(value: Any) -> tuple[str, str, str, int]:
    """Topic, group, mode and share. Raises BodyError."""
    if not isinstance(value, dict):
        raise BodyError("a request mode that is not an object")
    mode, share = value.get("mode"), value.get("popShareQueueNum", 0)
    if mode not in (POP, PULL) or type(share) is not int:
        raise BodyError("a request mode is POP or PULL, and popShareQueueNum is a number")
    return text_of(value, "topic"), text_of(value, "consumerGroup"), mode, share


def text_of(value: dict[Any, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise BodyError(f"{name} is missing")
    return found
