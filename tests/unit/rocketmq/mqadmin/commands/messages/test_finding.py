from __future__ import annotations

from pathlib import Path

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.errors import NotConnected
from penstock.rocketmq.mqadmin.commands.messages import finding as messages
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from tests.unit.rocketmq.mqadmin.commands.messages_of import stored
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin, answer, in_json, printed

OFFSET_ID = "7F00000100002A9F0000000000000009"
KEYED = "KEYS\x01k other\x02TAGS\x01A\x02UNIQ_KEY\x01U1\x02"


def _admin(*records: bytes) -> FakeAdmin:
    found = answer(b"".join(records))
    result = {"consumeResult": "CR_SUCCESS", "order": False, "autoCommit": True,
              "spentTimeMills": 1}  # fmt: skip
    return FakeAdmin(
        {
            Code.VIEW_MESSAGE_BY_ID: found, Code.QUERY_MESSAGE: found,
            Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": []}),
            Code.CONSUME_MESSAGE_DIRECTLY: answer(result),
        }
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BODIES", tmp_path / "bodies")


def test_a_message_by_id_with_its_body_in_a_file(tmp_path: Path) -> None:
    text = printed(messages.query_msg_by_id, _admin(stored(KEYED)), msgId=OFFSET_ID)
    assert text.startswith(f"OffsetID:            {OFFSET_ID}\nTopic:               T\n")
    assert text.endswith("\n\nWARN: No Consumer")
    assert (tmp_path / "bodies" / "U1").read_bytes() == b"body"


def test_an_id_of_a_stranger_makes_no_path(tmp_path: Path) -> None:
    admin = _admin(stored("UNIQ_KEY\x01../../evil\x02"))
    printed(messages.query_msg_by_id, admin, msgId=OFFSET_ID)
    assert [each.name for each in tmp_path.rglob("*")] == ["bodies", OFFSET_ID]


def test_json_has_the_body_and_writes_no_file(tmp_path: Path) -> None:
    found = in_json(messages.query_msg_by_id, _admin(stored(KEYED)), msgId=OFFSET_ID)
    message = found["messages"][0]
    assert (message["body"], message["keys"], message["tracks"]) == ("body", ["k", "other"], [])
    found = in_json(messages.query_msg_by_id, _admin(stored(body=b"\xff")), msgId=OFFSET_ID)
    assert found["messages"][0]["bodyBase64"] == "/w=="
    assert list(tmp_path.iterdir()) == []


def test_no_id_of_a_message() -> None:
    with pytest.raises(Refused, match="CODE: 208  DESC: query message by id finished"):
        printed(messages.query_msg_by_id, _admin(), msgId="zz")


def test_only_messages_with_that_key_are_listed() -> None:
    admin = _admin(stored(KEYED), stored("KEYS\x01kk\x02"), stored(KEYED, topic="U"))
    found = in_json(messages.query_msg_by_key, admin, topic="T", msgKey="other")
    assert found["messages"] == [{"id": "U1", "queue": 0, "offset": 3}]
    with pytest.raises(Refused, match="CODE: 208  DESC: query message by key finished"):
        printed(messages.query_msg_by_key, admin, topic="T", msgKey="nosuch")


def test_a_broker_that_is_gone_hides_no_message_of_another() -> None:
    admin = _admin(stored(KEYED))
    brokers = [{"brokerName": n, "cluster": "C", "brokerAddrs": {0: f"{n}:1"}} for n in "ab"]
    admin.answers[Code.GET_ROUTEINFO_BY_TOPIC] = answer({"brokerDatas": brokers, "queueDatas": []})
    answers: list[Exception | Command] = []
    admin.answers[Code.QUERY_MESSAGE] = lambda _: answers.pop(0)
    gone = NotConnected("a:1", "connection refused")
    answers += [gone, answer(stored(KEYED))]
    found = in_json(messages.query_msg_by_key, admin, topic="T", msgKey="k")
    assert [each["id"] for each in found["messages"]] == ["U1"]
    answers += [Refused(208, "none"), gone]
    with pytest.raises(NotConnected, match="a:1: connection refused"):
        printed(messages.query_msg_by_key, admin, topic="T", msgKey="k")


def test_the_id_of_its_producer() -> None:
    admin = _admin(stored(KEYED), stored(KEYED))
    found = in_json(messages.query_msg_by_unique_key, admin, topic="T", msgId="U1", showAll="")
    assert len(found["messages"]) == 2
    assert admin.fields(Code.QUERY_MESSAGE)[0]["_UNIQUE_KEY_QUERY"] == "true"
    text = printed(messages.query_msg_by_unique_key, admin, topic="T", msgId="U1")
    assert text.startswith("Topic:               T\n")


def test_a_topic_without_a_route_is_named() -> None:
    admin = _admin()
    admin.answers[Code.GET_ROUTEINFO_BY_TOPIC] = Refused(17, "No topic route info")
    with pytest.raises(Refused, match=r"CODE: 17  DESC: The topic\[T\] not matched route info"):
        printed(messages.query_msg_by_key, admin, topic="T", msgKey="k")


def test_a_message_is_consumed_directly() -> None:
    admin = _admin(stored(KEYED))
    text = printed(
        messages.query_msg_by_unique_key, admin, topic="T", msgId="U1", consumerGroup="G",
        clientId="c",
    )  # fmt: skip
    assert text == (
        "ConsumeMessageDirectlyResult [order=false, autoCommit=true, consumeResult=CR_SUCCESS, "
        "remark=null, spentTimeMills=1]"
    )
    fields = {"consumerGroup": "G", "clientId": "c", "msgId": OFFSET_ID}
    assert admin.fields(Code.CONSUME_MESSAGE_DIRECTLY) == [fields]
