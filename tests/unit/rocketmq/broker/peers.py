"""Connections that note what they are told, for answerers called without a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.remoting import Connection, NoAnswerError


class Told(NamedTuple):
    """What a broker asked of a client."""

    code: int
    ext: dict[str, str]
    body: bytes


class FakePeer:
    """Takes the place of a connection; ``reply`` answers what the broker asks."""

    def __init__(self, reply: Callable[[Told], Command] | None = None) -> None:
        self.address = "127.0.0.1:5000"
        self.host = Host.parse(self.address)
        self.told: list[Told] = []
        self.sent: list[Command] = []
        self.is_closed = False
        self.is_congested = False
        self.has_room = True
        self._reply = reply

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def tell(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.told.append(Told(int(code), ext or {}, body))

    async def invoke(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, seconds: float
    ) -> Command:
        self.tell(code, ext, body)
        if self._reply is None:
            raise NoAnswerError("nobody there")
        return self._reply(self.told[-1])

    def close(self) -> None:
        self.is_closed = True

    @property
    def connection(self) -> Connection:
        return cast(Connection, self)

    @property
    def told_codes(self) -> list[int]:
        return [told.code for told in self.told]


def request(
    code: int,
    body: bytes = b"",
    *,
    language: Language = Language.JAVA,
    version: int = 409,
    **fields: Any,
) -> Command:
    """A request with these ext fields."""
    ext = {name: str(value) for name, value in fields.items()} or None
    return Command(code, 7, ext, body, language=language, version=version)


def hand_over(services: Services, connection: Connection, request: Command) -> Command | None:
    """The answer at once; None if it comes later or never."""
    return services.answers.at_once[request.code](connection, request)


def answered(services: Services, connection: Connection, request: Command) -> Command:
    """What is answered at once."""
    found = hand_over(services, connection, request)
    assert found is not None
    return found


async def answered_later(services: Services, connection: Connection, request: Command) -> Command:
    """What is answered when the task of a request has ended."""
    found = await services.answers.later[request.code](connection, request)
    assert found is not None
    return found


def heartbeat(
    client_id: str,
    *groups: str,
    topic: str = "T",
    text: str = "*",
    model: str = "CLUSTERING",
    kind: str = "TAG",
    version: int = 1,
    producers: tuple[str, ...] = (),
) -> bytes:
    """The body of a Java client's heartbeat: all groups subscribe to the same topic."""
    subscription = {"topic": topic, "subString": text, "expressionType": kind,
                    "subVersion": version}  # fmt: skip
    consumers = [
        {
            "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": model,
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription],
            "unitMode": False,
        }
        for group in groups
    ]  # fmt: skip
    value = {
        "clientID": client_id,
        "consumerDataSet": consumers,
        "producerDataSet": [{"groupName": name} for name in producers],
    }
    return json.dumps(value).encode()
