"""Sends, without a network."""

from __future__ import annotations

import pytest

from penstock.broker.publish.batching import Outcome
from penstock.broker.publish.records import Records
from penstock.broker.topic import Topic
from penstock.core.errors import (
    DiskFullError,
    LateCopyError,
    NotCopiedError,
    StorageError,
    TooManyFilesError,
)
from penstock.rocketmq.broker.send import sending
from penstock.rocketmq.broker.send.flush_timeouts import Sending
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.frames import FrameReader
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.registration import TopicConfig
from tests.unit.rocketmq.broker.lives import stored as all_of
from tests.unit.rocketmq.broker.peers import FakePeer, hand_over, request


def test_a_topic_that_there_is_no_room_for_is_not_made(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.topics.set_template(8, 1, inherited=True)
    monkeypatch.setattr(services.node.registry, "_topics_max", 0)
    send = request(RequestCode.SEND_MESSAGE_V2, b"x", a="P", b="New", c="TBW102", d=4, e=0, f=0,
                   g=1, h=0, i="", j=0)  # fmt: skip
    with pytest.raises(TooManyFilesError):
        hand_over(services, FakePeer().connection, send)
    assert "New" not in services.topics.configs
    assert b"New" not in (services.files.disk.read_file(_topics_file(services)) or b"")


def test_a_topic_that_cannot_be_written_down_is_not_made(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, where each send could name another one."""

    def save(_name: str) -> None:
        raise DiskFullError("no space left on device")

    services.topics.set_template(8, 1, inherited=True)
    send = request(RequestCode.SEND_MESSAGE_V2, b"x", a="P", b="New", c="TBW102", d=4, e=0, f=0,
                   g=1, h=0, i="", j=0)  # fmt: skip
    with monkeypatch.context() as full:
        full.setattr(services.files, "save", save)
        with pytest.raises(DiskFullError):
            hand_over(services, FakePeer().connection, send)
    assert "New" not in services.topics.configs
    assert "New" not in services.node.broker.topics


def test_a_send_without_a_place_is_not_told_that_it_is_stored(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a large commit is written, which publishes to the topic wait for."""
    waiting, watched, peer = Waiting(), Watched(), FakePeer()
    services.topics.put(TopicConfig("T", 1, 1), 1)
    monkeypatch.setattr(services.store, "_commits", waiting)
    monkeypatch.setattr(services.sends, "flush_timeouts", watched)
    answers: list[bytes] = []
    monkeypatch.setattr(peer, "send_pieces", lambda pieces: answers.extend(pieces), raising=False)
    send = request(RequestCode.SEND_MESSAGE_V2, b"x", a="P", b="T", c="TBW102", d=4, e=0, f=0,
                   g=1, h=0, i="", j=0)  # fmt: skip
    assert hand_over(services, peer.connection, send) is None
    (sent,) = watched.sends
    sent.flush_timed_out()
    assert answers == []
    waiting.commit()
    sent.flush_timed_out()
    reader = FrameReader()
    reader.feed(b"".join(answers))
    answer = reader.next_command()
    assert answer is not None
    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    place = OffsetId.parse((answer.ext or {})["msgId"]).offset
    assert services.store.message(place) is not None


@pytest.mark.parametrize(("tries", "topic"), [(1, "SCHEDULE_TOPIC_XXXX"), (16, "%DLQ%G")])
async def test_a_retry_of_what_was_in_a_transaction_is_no_half(
    services: Services, tries: int, topic: str
) -> None:
    """As Java's clients before 4.6.1 send it when they cannot send it back, or consume in order."""
    found = {"TRAN_MSG": "true", "PGROUP": "P", "RETRY_TOPIC": "T", "DELAY": "3"}
    send = request(RequestCode.SEND_MESSAGE_V2, b"x", a="C", b="%RETRY%G", c="TBW102", d=4, e=0,
                   f=4, g=1, h=0, i=properties.join(found), j=tries, l=16)  # fmt: skip
    peer = FakePeer()
    peer.send_pieces = lambda pieces: None  # type: ignore[attr-defined]
    hand_over(services, peer.connection, send)
    assert services.store.bounds("RMQ_SYS_TRANS_HALF_TOPIC", 0) == (0, 0)
    (stored,) = all_of(services, topic, 2 if topic.startswith("SCHEDULE") else 0)
    assert (stored.body, stored.sys_flag) == (b"x", 0)


class Watched:
    """Takes the place of the sends that wait for a sync."""

    def __init__(self) -> None:
        self.sends: list[Sending] = []

    def watch(self, sending: Sending) -> None:
        self.sends.append(sending)


class Waiting:
    """Commits nothing before it is told to, and then answers nobody yet."""

    def __init__(self) -> None:
        self._topic: Topic | None = None

    def publish(
        self, topic: Topic, records: Records, delay_ns: int, done: Outcome, queue: int | None = None
    ) -> None:
        topic.stage(records, delay_ns, done, queue)
        self._topic = topic

    def commit(self) -> None:
        assert self._topic is not None
        self._topic.commit()


def _topics_file(services: Services) -> str:
    return f"{services.settings.store_path_root_dir}/config/topics.json"


@pytest.mark.parametrize(
    ("error", "code", "is_stored"),
    [
        (NotCopiedError("0 of 1 copies follow"), ResponseCode.SERVICE_NOT_AVAILABLE, False),
        (LateCopyError("not copied within 5 s"), ResponseCode.FLUSH_SLAVE_TIMEOUT, True),
        (DiskFullError("full"), ResponseCode.SERVICE_NOT_AVAILABLE, False),
        (StorageError("failed"), ResponseCode.SYSTEM_ERROR, False),
    ],
)
def test_the_code_of_an_error(error: StorageError, code: ResponseCode, is_stored: bool) -> None:
    assert sending.error_code(error) is code
    assert (code in sending.STORED) is is_stored
