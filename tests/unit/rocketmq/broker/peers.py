"""Connections that note what they are told, for answerers called without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import pytest

from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.names import retry_topic
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.frames import FrameReader
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.remoting import Connection, NoAnswerError


class Told(NamedTuple):
    """What a broker asked of a client."""

    code: int
    ext: dict[str, str]
    body: bytes


class FakePeer:
    """Takes the place of a connection; ``reply`` answers what the broker asks.

    ``told`` is what the broker asked, ``sent`` what it answered later, and ``again`` has the
    requests that it takes once more.
    """

    def __init__(self, reply: Callable[[Told], Command] | None = None) -> None:
        self.address = "127.0.0.1:5000"
        self.host = Host.parse(self.address)
        self.told: list[Told] = []
        self.sent: list[Command] = []
        self.again: list[Command] = []
        self.is_closed = False
        self.is_congested = False
        self.has_room = True
        self._reply = reply

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def send_pieces(self, pieces: Iterable[bytes]) -> None:
        reader = FrameReader()
        reader.feed(b"".join(map(bytes, pieces)))
        self.sent += iter(reader.next_command, None)

    def send_large(self, pieces: Iterable[bytes], nbytes: int) -> None:
        self.send_pieces(pieces)

    def take_again(self, request: Command) -> None:
        self.again.append(request)

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

    @property
    def codes(self) -> list[int]:
        """Those of the answers."""
        return [answer.code for answer in self.sent]


def request(
    code: int,
    body: bytes = b"",
    /,
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


def ask(services: Services, code: int, body: bytes = b"", /, **fields: Any) -> Command:
    """What anybody is answered at once."""
    found = hand_over(services, FakePeer().connection, request(code, body, **fields))
    assert found is not None
    return found


def ask_json(services: Services, code: int, body: bytes = b"", /, **fields: Any) -> Any:
    """The body of that."""
    return fastjson.loads(ask(services, code, body, **fields).body)


async def ask_later(services: Services, code: int, body: bytes = b"", /, **fields: Any) -> Command:
    """What is answered when the task of a request has ended."""
    asked = request(code, body, **fields)
    found = await services.answers.later[code](FakePeer().connection, asked)
    assert found is not None
    return found


@contextmanager
def refused(code: int, words: str | None = None) -> Iterator[None]:
    """What is asked within is refused with this code and a text that matches."""
    with pytest.raises(RefusedError, match=words) as caught:
        yield
    assert caught.value.code == code


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


def join(
    services: Services, client_id: str = "c1", group: str = "G", *, peer: FakePeer | None = None,
    client_version: int = 409, language: Language = Language.JAVA, **subscribed: Any,
) -> FakePeer:  # fmt: skip
    """A member of a group that is there, so that it is answered at once; what it is told so far is
    forgotten.
    """
    peer = peer or FakePeer()
    services.topics.make_inner(retry_topic(group), 1, services.now_ms)
    body = heartbeat(client_id, group, **subscribed)
    beat = request(RequestCode.HEART_BEAT, body, language=language, version=client_version)
    hand_over(services, peer.connection, beat)
    peer.told.clear()
    return peer
