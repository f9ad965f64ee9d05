from __future__ import annotations

from pathlib import Path

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.commands import consumers
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.fake_admin import QUEUE, FakeAdmin, answer, in_json, printed

NOW = 10_000_000
MEMBER = {"clientId": "10.0.0.1@../1", "clientAddr": "x:1", "language": "JAVA", "version": 407}


def _info(subscribed: str = "*", orderly: str = "false", **queue: object) -> dict[str, object]:
    return {
        "properties": {
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMEORDERLY": orderly,
            "PROP_CONSUMER_START_TIMESTAMP": "1",
        },
        "subscriptionSet": [{"topic": "T", "subString": subscribed, "classFilterMode": False}],
        "mqTable": {QUEUE: {"commitOffset": 7, **queue}},
        "statusTable": {"T": {"pullRT": 1.5, "consumeFailedMsgs": 2}},
    }  # fmt: skip


def _admin(info: object) -> FakeAdmin:
    connections = answer({"connectionSet": [MEMBER]})
    return FakeAdmin(
        {
            Code.GET_CONSUMER_CONNECTION_LIST: connections,
            Code.GET_CONSUMER_RUNNING_INFO: info if isinstance(info, Exception) else answer(info),
        }
    )


def test_members_with_a_file_for_each_that_stays_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = printed(consumers.status, _admin(_info()), consumerGroup="G")
    assert "\n\nSame subscription in the same group of consumer\n\nRebalance OK\n" in text
    (file,) = tmp_path.rglob("*@*")
    assert file.name == "10.0.0.1@.._1"
    shown = file.read_text()
    assert "001 Topic: T" in shown
    assert "ProcessQueueInfo [commitOffset=7, cachedMsgMinOffset=0, " in shown
    assert "          1.50 " in shown


def test_one_member_in_full() -> None:
    found = in_json(consumers.status, _admin(_info()), consumerGroup="G", clientId="c")
    assert found["runningInfo"]["mqTable"][0] == {
        "brokerName": "a", "queueId": 0, "topic": "T", "commitOffset": 7,
    }  # fmt: skip
    info = {**_info(), "jstack": "main runs"}
    text = printed(consumers.status, _admin(info), consumerGroup="G", clientId="c", jstack="")
    assert text.endswith("#Consumer jstack#\nmain runs")


def test_a_member_that_does_not_answer_is_named() -> None:
    found = in_json(consumers.status, _admin(Refused(207, "Timeout")), consumerGroup="G")
    assert found["results"][0]["text"] == "10.0.0.1@../1: CODE: 207  DESC: Timeout"


def test_different_subscriptions_are_seen_after_two_minutes() -> None:
    infos = [_info("a"), _info("b")]
    assert not consumers.is_same_subscription(infos, NOW)
    assert consumers.is_same_subscription(infos, 100_000)
    assert consumers.is_same_subscription([_info(), _info()], NOW)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (_info(cachedMsgCount=1), "can't consume for a while, maybe blocked, 10000000ms"),
        (_info(cachedMsgCount=0), None),
        (_info(orderly="true", locked=False, lastLockTimestamp=NOW - 5),
         "can't lock for a while, 5ms"),
        (_info(orderly="true", locked=True, droped=True, tryUnlockTimes=3),
         "unlock 3 times, still failed"),
        (_info(orderly="true", locked=True), None),
    ],
)  # fmt: skip
def test_queues_that_do_not_get_on(info: dict[str, object], expected: str | None) -> None:
    found = consumers.complaints("c", info, NOW)
    queue = "MessageQueue [topic=T, brokerName=a, queueId=0]"
    assert found == ([] if expected is None else [f"c {queue} {expected}"])
