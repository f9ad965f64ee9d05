"""Looking for messages, printing what queues hold, traces, and what became of a message.

That it reads as upstream's is shown on real servers (tests/conformance/test_mqadmin.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.trace_entries import TRACES
from penstock.rocketmq.client.consume.pulling import Pulled, PullStatus
from penstock.rocketmq.client.consume.received import all_received
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.client.produce.trace import entry
from penstock.rocketmq.mqadmin.commands.messages import finding, printing, traces
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.queues import Reader
from penstock.rocketmq.mqadmin.tracks import tracks
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.mqadmin.fake_admin import (
    BROKER,
    Answer,
    FakeAdmin,
    Work,
    answer,
    at_offset,
    in_json,
    printed,
    record,
    stored,
)

OFFSET_ID = "7F00000100002A9F0000000000000009"
KEYED = "KEYS\x01k other\x02TAGS\x01A\x02UNIQ_KEY\x01U1\x02"
T = {"topic": "T"}
CONSUMED = {"consumeResult": "CR_SUCCESS", "order": False, "autoCommit": True, "spentTimeMills": 1}


def holding(*records: bytes) -> FakeAdmin:
    """A broker that finds these, whatever it is asked for."""
    found = answer(b"".join(records))
    return FakeAdmin(
        {
            Code.VIEW_MESSAGE_BY_ID: found, Code.QUERY_MESSAGE: found,
            Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": []}),
            Code.CONSUME_MESSAGE_DIRECTLY: answer(CONSUMED),
        }
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "BODIES", tmp_path / "bodies")


# --- by id and by key -----------------------------------------------------------------------------


def test_a_message_by_id_with_its_body_in_a_file(tmp_path: Path) -> None:
    text = printed(finding.query_msg_by_id, holding(record(KEYED)), msgId=OFFSET_ID)
    assert text.startswith(f"OffsetID:            {OFFSET_ID}\nTopic:               T\n")
    assert text.endswith("\n\nWARN: No Consumer")
    assert (tmp_path / "bodies" / "U1").read_bytes() == b"body"


def test_an_id_of_a_stranger_makes_no_path(tmp_path: Path) -> None:
    admin = holding(record("UNIQ_KEY\x01../../evil\x02"))
    printed(finding.query_msg_by_id, admin, msgId=OFFSET_ID)
    assert [each.name for each in tmp_path.rglob("*")] == ["bodies", OFFSET_ID]


def test_json_has_the_body_and_writes_no_file(tmp_path: Path) -> None:
    found = in_json(finding.query_msg_by_id, holding(record(KEYED)), msgId=OFFSET_ID)
    message = found["messages"][0]
    assert (message["body"], message["keys"], message["tracks"]) == ("body", ["k", "other"], [])
    found = in_json(finding.query_msg_by_id, holding(record(body=b"\xff")), msgId=OFFSET_ID)
    assert found["messages"][0]["bodyBase64"] == "/w=="
    assert list(tmp_path.iterdir()) == []


def test_only_messages_with_that_key_are_listed() -> None:
    admin = holding(record(KEYED), record("KEYS\x01kk\x02"), record(KEYED, topic="U"))
    found = in_json(finding.query_msg_by_key, admin, **T, msgKey="other")
    assert found["messages"] == [{"id": "U1", "queue": 0, "offset": 3}]


def test_a_broker_that_is_gone_hides_no_message_of_another() -> None:
    admin = holding()
    brokers = [{"brokerName": n, "cluster": "C", "brokerAddrs": {0: f"{n}:1"}} for n in "ab"]
    admin.answers[Code.GET_ROUTEINFO_BY_TOPIC] = answer({"brokerDatas": brokers, "queueDatas": []})
    gone = NotConnected("a:1", "connection refused")
    answers: list[Exception | Command] = [gone, answer(record(KEYED)), Refused(208, "none"), gone]
    admin.answers[Code.QUERY_MESSAGE] = lambda _: answers.pop(0)
    found = in_json(finding.query_msg_by_key, admin, **T, msgKey="k")
    assert [each["id"] for each in found["messages"]] == ["U1"]
    with pytest.raises(NotConnected, match="a:1: connection refused"):
        printed(finding.query_msg_by_key, admin, **T, msgKey="k")


@pytest.mark.parametrize(("more", "count"), [({"showAll": ""}, 2), ({}, 1)])
def test_the_id_of_its_producer(more: dict[str, str], count: int) -> None:
    admin = holding(record(KEYED), record(KEYED))
    found = in_json(finding.query_msg_by_unique_key, admin, **T, msgId="U1", **more)
    assert len(found["messages"]) == count
    assert admin.fields(Code.QUERY_MESSAGE)[0]["_UNIQUE_KEY_QUERY"] == "true"


def test_a_message_is_consumed_directly() -> None:
    admin, member = holding(record(KEYED)), {"consumerGroup": "G", "clientId": "c"}
    found = in_json(finding.query_msg_by_unique_key, admin, **T, msgId="U1", **member)
    assert found["results"][0].items() >= CONSUMED.items()
    assert admin.fields(Code.CONSUME_MESSAGE_DIRECTLY) == [{**member, "msgId": OFFSET_ID}]


# --- what queues hold -----------------------------------------------------------------------------


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """Queues from 3 to 5: one message, and one that does not match."""

    async def server(self: Any, queue: object) -> str:
        return BROKER

    async def pull(self: Any, queue: object, at: int, wanted: object, most: int) -> Pulled:
        if at == 3:
            return Pulled(PullStatus.FOUND, all_received(record("TAGS\x01A\x02"), "a"), 4, 3, 5)
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


PLACE = {**T, "brokerName": "a", "queueId": "0"}
QUEUE = "MessageQueue [topic=T, brokerName=a, queueId=0]"


def test_a_topic_queue_by_queue(admin: FakeAdmin) -> None:
    lines = printed(printing.print_msg, admin, **T).splitlines()
    assert lines[0] == f"minOffset=3, maxOffset=5, {QUEUE}"
    assert lines[1].endswith("BODY: body")
    assert lines[2] == f"{QUEUE} no matched msg. status=NO_MATCHED_MSG, offset=5"
    assert lines[3] == "-" * 56
    assert len(lines) == 8


def test_messages_in_json(admin: FakeAdmin) -> None:
    found = in_json(printing.print_msg, admin, **T, beginTimestamp="1", endTimestamp="2")
    assert found == {}
    found = in_json(printing.print_msg, admin, **T)
    assert [each["body"] for each in found["messages"]] == ["body", "body"]
    found = in_json(printing.print_msg_by_queue, admin, **PLACE, calculate="true")
    assert found == {"tags": [{"tag": "A", "count": 1}]}


@pytest.mark.parametrize(
    ("work", "given", "expected"),
    [
        (printing.print_msg, T | {"printBody": "false"}, "BODY: NOT PRINT BODY"),
        (printing.print_msg_by_queue, PLACE | {"print msg": "true"}, "MSGID: "),
        (printing.consume_message, T | {"MessageNumber": "1"},
         "The older 1 message of the 0 queue will be provided\nConsume ok\n"),
        (printing.consume_message, PLACE, "print msg finished. status=NO_NEW_MSG, offset=5"),
        (printing.consume_message, PLACE | {"offset": "9"}, "no matched msg, offset=9\n"),
    ],
)  # fmt: skip
def test_what_is_printed_of_a_queue(
    admin: FakeAdmin, work: Work, given: dict[str, str], expected: str
) -> None:
    assert expected in printed(work, admin, **given)


def test_an_encoding_that_there_is_not(admin: FakeAdmin) -> None:
    with pytest.raises(CommandFailed, match="'klingon' is not an encoding"):
        printed(printing.print_msg, admin, **T, charsetName="klingon")


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
    assert printed(printing.consume_message, FakeAdmin(), **given).startswith(expected)


def test_each_pull_goes_on_where_the_one_before_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    admin = FakeAdmin()

    async def pull(self: Any, queue: object, at: int, wanted: object, most: int) -> Pulled:
        asked.append(at)
        return Pulled(PullStatus.FOUND, [], at + 2, 0, 9)

    async def read() -> list[int]:
        pulls = Reader(admin).pulls(MessageQueue("a", 0, "T"), 3, 7, "*", 32)
        return [each.next_offset async for each in pulls]

    monkeypatch.setattr(Reader, "pull", pull)
    assert (admin.do(read()), asked) == ([5, 7], [3, 5])


# --- traces ---------------------------------------------------------------------------------------

SENT = entry("Pub", 5, "R", "shop", "T", "U1", "", "", "h", 4, 12, 0, "OFFSET", True, "h")
TAKEN = entry("SubAfter", "r", "U1", 7, False, "k", 0, 6, "billing")
ENDED = entry(
    "EndTransaction", 8, "R", "shop", "T", "U1", "", "", "h", 2, "U1", "COMMIT_MESSAGE", False
)
OTHER = entry("SubBefore", 5, "R", "billing", "r", "U1", 0, "k") + entry("SubAfter", "r", "U2")


def trace(kind: str, group: str, time: int, cost: int, status: str) -> dict[str, Any]:
    return {"type": kind, "group": group, "clientHost": "127.0.0.1", "time": time, "cost": cost,
            "status": status}  # fmt: skip


SHOWN = {
    "Pub": trace("Pub", "shop", 5, 12, "success"), "Sub": trace("Sub", "billing", 6, 7, "failed"),
    "End": trace("End", "shop", 8, 0, "COMMIT_MESSAGE"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("told", "kinds"),
    [(SENT + OTHER + TAKEN, ["Pub", "Sub"]), (SENT + ENDED, ["Pub", "End"]), (ENDED, ["End"])],
    ids=["sent and consumed", "a transaction", "its end"],
)
def test_a_trace_with_a_table_for_each_group(told: str, kinds: list[str]) -> None:
    traced = record("KEYS\x01U1\x02", told.encode(), TRACES)
    admin = FakeAdmin({Code.QUERY_MESSAGE: answer(traced)})
    found = in_json(traces.query_trace, admin, msgId="U1")
    assert found == {"traces": [SHOWN[kind] for kind in kinds]}
    lines = printed(traces.query_trace, admin, msgId="U1").splitlines()
    heads = [line.split()[0] for line in lines if line]
    assert heads == [word for kind in kinds for word in ("#Type", kind)]


# --- what became of a message ---------------------------------------------------------------------


def connected(kind: str = "CONSUME_PASSIVELY", *tags: str) -> Answer:
    subscription = {"topic": "T", "tagsSet": list(tags)}
    found = {"connectionSet": [{}], "consumeType": kind, "subscriptionTable": {"T": subscription}}
    return answer(found)


@pytest.mark.parametrize(
    ("connections", "offset", "expected"),
    [
        (connected(), 4, "CONSUMED"),
        (connected("CONSUME_PASSIVELY", "A"), 4, "CONSUMED"),
        (connected("CONSUME_PASSIVELY", "B"), 4, "CONSUMED_BUT_FILTERED"),
        (connected(), 3, "NOT_CONSUME_YET"),
        (connected("CONSUME_ACTIVELY"), 4, "PULL"),
        (Refused(206, "nobody"), 4, "NOT_ONLINE"),
        (Refused(1, "no"), 4, "UNKNOWN"),
        (PenstockError("gone"), 4, "UNKNOWN"),
    ],
)
def test_what_became_of_a_message(connections: Answer, offset: int, expected: str) -> None:
    admin = FakeAdmin(
        {
            Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": ["G"]}),
            Code.GET_CONSUMER_CONNECTION_LIST: connections,
            Code.GET_CONSUME_STATS: answer({"offsetTable": at_offset(offset)}),
        }
    )
    (found,) = admin.do(tracks(admin, stored("TAGS\x01A\x02")))
    assert str(found).startswith(f"MessageTrack [consumerGroup=G, trackType={expected}, ")
