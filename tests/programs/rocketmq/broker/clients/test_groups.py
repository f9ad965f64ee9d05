"""Heartbeats over the wire: one way, and the retry topic that they make."""

from __future__ import annotations

from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import has_route


def test_a_heartbeat_one_way(client: RawClient) -> None:
    client.tell(Code.HEART_BEAT, heartbeat("c1", "G"))
    notice = client.asked(Code.NOTIFY_CONSUMER_IDS_CHANGED)
    assert (notice.is_one_way, notice.ext) == (True, {"consumerGroup": "G"})
    members = client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G")
    assert members.body == b'{"consumerIdList":["c1"]}'
    assert client.requests == [], "and no answer"


def test_the_retry_topic_is_in_the_routes_right_after_the_first_heartbeat(
    client: RawClient, routes: RawClient
) -> None:
    assert not has_route(routes, "%RETRY%G")
    assert client.ask(Code.HEART_BEAT, heartbeat("c1", "G")).code == 0
    assert has_route(routes, "%RETRY%G")
