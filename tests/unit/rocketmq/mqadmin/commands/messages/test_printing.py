"""Printing what queues hold; that it reads as upstream's is shown on real servers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client.consume.pulling import Pulled, PullStatus
from penstock.rocketmq.client.consume.received import all_received
from penstock.rocketmq.mqadmin.commands.messages import printing
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.queues import Reader
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.commands.messages_of import stored
from tests.unit.rocketmq.mqadmin.fake_admin import BROKER, FakeAdmin, answer, in_json, printed


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """Queues from 3 to 5: one message, and one that does not match."""

    async def server(self: Any, queue: object) -> str:
        return BROKER

    async def pull(self: Any, queue: object, at: int, wanted: object, most: int) -> Pulled:
        if at == 3:
            found = all_received(stored("TAGS\x01A\x02"), "a")
            return Pulled(PullStatus.FOUND, found, 4, 3, 5)
        status = PullStatus.NO_MATCHED_MSG if at == 4 else PullStatus.NO_NEW_MSG
        return Pulled(status, [], at + 1 if at == 4 else at, 3, 5)

    monkeypatch.setattr(Reader, "_server", server)
    monkeypatch.setattr(Reader, "pull", pull)
    return FakeAdmin(
        {
            Code.GET_MIN_OFFSET: answer(offset=3), Code.GET_MAX_OFFSET: answer(offset=5),
            Code.SEARCH_OFFSET_BY_TIMESTAMP: answer(offset=4),
        }
    )  # fmt: skip


def test_a_topic_queue_by_queue(admin: FakeAdmin) -> None:
    lines = printed(printing.print_msg, admin, topic="T").splitlines()
    queue = "MessageQueue [topic=T, brokerName=a, queueId=0]"
    assert lines[0] == f"minOffset=3, maxOffset=5, {queue}"
    assert lines[1].endswith("BODY: body")
    assert lines[2] == f"{queue} no matched msg. status=NO_MATCHED_MSG, offset=5"
    assert lines[3] == "-" * 56
    assert len(lines) == 8
    text = printed(printing.print_msg, admin, topic="T", printBody="false")
    assert "BODY: NOT PRINT BODY" in text
    with pytest.raises(CommandFailed, match="'klingon' is no encoding"):
        printed(printing.print_msg, admin, topic="T", charsetName="klingon")


def test_messages_in_json(admin: FakeAdmin) -> None:
    found = in_json(printing.print_msg, admin, topic="T", beginTimestamp="1", endTimestamp="2")
    assert found == {}
    found = in_json(printing.print_msg, admin, topic="T")
    assert [each["body"] for each in found["messages"]] == ["body", "body"]


def test_a_queue_and_its_tags(admin: FakeAdmin) -> None:
    given = {"topic": "T", "brokerName": "a", "queueId": "0"}
    found = in_json(printing.print_msg_by_queue, admin, calculate="true", **given)
    assert found == {"tags": [{"tag": "A", "count": 1}]}
    text = printed(printing.print_msg_by_queue, admin, **given, **{"print msg": "true"})
    assert text.count("MSGID: ") == 1


def test_the_oldest_messages(admin: FakeAdmin) -> None:
    text = printed(printing.consume_message, admin, topic="T", MessageNumber="1")
    assert text.startswith("The older 1 message of the 0 queue will be provided\nConsume ok\n")
    given = {"topic": "T", "brokerName": "a", "queueId": "0"}
    text = printed(printing.consume_message, admin, **given)
    assert "print msg finished. status=NO_NEW_MSG, offset=5" in text
    text = printed(printing.consume_message, admin, **given, offset="9")
    assert text.endswith("no matched msg, offset=9\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"MessageNumber": "0"}, "Please input a positive messageNumber!"),
        ({"queueId": "1"}, "Please set the brokerName before queueId!"),
        ({"offset": "1"}, "Please set queueId before offset!"),
        ({"beginTimestamp": str(1 << 60)}, "Please set the beginTimestamp before now!"),
        ({"beginTimestamp": "2", "endTimestamp": "1"}, "Please make sure that the beginTimestamp"),
    ],
)
def test_options_that_contradict_one_another(given: dict[str, str], expected: str) -> None:
    text = printed(printing.consume_message, FakeAdmin({Code.GET_MIN_OFFSET: answer()}), **given)
    assert text.startswith(expected)
