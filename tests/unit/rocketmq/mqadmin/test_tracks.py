from __future__ import annotations

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin.tracks import tracks
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage

from .fake_admin import BROKER, QUEUE, Answer, FakeAdmin, answer

MESSAGE = StoredMessage(
    "T", b"x", 0, 3, 0, Host.parse(BROKER), Host.parse(BROKER), 0, 0, "TAGS\x01A\x02"
)


def _connected(kind: str = "CONSUME_PASSIVELY", tags: tuple[str, ...] = ()) -> Answer:
    subscription = {"topic": "T", "tagsSet": list(tags)}
    found = {"connectionSet": [{}], "consumeType": kind, "subscriptionTable": {"T": subscription}}
    return answer(found)


@pytest.mark.parametrize(
    ("connections", "offset", "expected"),
    [
        (_connected(), 4, "CONSUMED"),
        (_connected(tags=("A",)), 4, "CONSUMED"),
        (_connected(tags=("B",)), 4, "CONSUMED_BUT_FILTERED"),
        (_connected(), 3, "NOT_CONSUME_YET"),
        (_connected("CONSUME_ACTIVELY"), 4, "PULL"),
        (Refused(206, "nobody"), 4, "NOT_ONLINE"),
        (Refused(1, "no"), 4, "UNKNOWN"),
    ],
)
def test_what_became_of_a_message(connections: Answer, offset: int, expected: str) -> None:
    stats = {QUEUE: {"brokerOffset": 9, "consumerOffset": offset, "lastTimestamp": 0}}
    admin = FakeAdmin(
        {
            Code.QUERY_TOPIC_CONSUME_BY_WHO: answer({"groupList": ["G"]}),
            Code.GET_CONSUMER_CONNECTION_LIST: connections,
            Code.GET_CONSUME_STATS: answer({"offsetTable": stats}),
        }
    )
    found = admin.do(tracks(admin, MESSAGE))
    assert [each.trackType for each in found] == [expected]
    assert str(found[0]).startswith(f"MessageTrack [consumerGroup=G, trackType={expected}, ")
