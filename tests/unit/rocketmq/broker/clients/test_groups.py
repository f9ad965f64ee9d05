"""Clients that join and leave groups, what groups have of their own, the locks of their members."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.rocketmq.broker.clients import orderly
from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state import clients, group_table, queue_locks
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.filling import store
from tests.unit.rocketmq.broker.peers import (
    FakePeer,
    ask,
    ask_json,
    hand_over,
    heartbeat,
    join,
    refused,
    request,
)

NOTIFY = Code.NOTIFY_CONSUMER_IDS_CHANGED


@pytest.fixture
def group(services: Services) -> str:
    """A group that there is already, so that heartbeats are answered at once."""
    services.group_topics.retry_topic(services.group_topics.need("G"))
    return "G"


def beat(services: Services, peer: FakePeer, body: bytes) -> Command:
    answer = hand_over(services, peer.connection, request(Code.HEART_BEAT, body))
    assert answer is not None
    return answer


def members(services: Services, group: str) -> list[str]:
    answer = ask(services, Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
    if answer.code == 0:
        return list(fastjson.loads(answer.body)["consumerIdList"])
    words = f"no consumer for this group, {group}"
    assert (answer.code, answer.remark, answer.ext) == (1, words, {})
    return []


def test_all_members_hear_of_a_new_one_and_so_does_it(services: Services, group: str) -> None:
    one, two = FakePeer(), FakePeer()
    answer = beat(services, one, heartbeat("c1", group))
    assert (answer.code, answer.ext) == (0, None)
    assert one.told == [(NOTIFY, {"consumerGroup": group}, b"")]
    for topic, told in (("T", (2, 1)), ("T", (2, 1)), ("U", (3, 2))):
        beat(services, two, heartbeat("c2", group, topic=topic))
        assert (one.told_codes, two.told_codes) == ([NOTIFY] * told[0], [NOTIFY] * told[1])
    assert members(services, group) == ["c1", "c2"]


def test_the_rest_hears_of_who_leaves(services: Services, group: str) -> None:
    peers = [FakePeer(), FakePeer(), FakePeer()]
    for number, peer in enumerate(peers):
        beat(services, peer, heartbeat(f"c{number}", group))
    for peer in peers:
        peer.told.clear()

    def told() -> list[list[int]]:
        return [peer.told_codes for peer in peers]

    leaving = request(35, clientID="c0", producerGroup="", consumerGroup=group)
    answer = hand_over(services, peers[0].connection, leaving)
    assert answer is not None
    assert (answer.code, answer.ext) == (0, {})
    assert told() == [[], [NOTIFY], [NOTIFY]]
    services.heartbeats.connection_ended(peers[1].connection)
    assert told() == [[], [NOTIFY], [NOTIFY] * 2]
    assert members(services, group) == ["c2"]
    services.heartbeats.connection_ended(peers[2].connection)
    assert members(services, group) == []


@pytest.mark.parametrize("where", ["broker", "group", "broadcast", "congested"])
def test_who_is_not_notified(services: Services, group: str, where: str) -> None:
    if where == "broker":
        services.settings.notify_consumer_ids_changed_enable = False
    elif where == "group":
        config = GroupConfig(group, notify_consumer_ids_changed_enable=False)
        services.groups.put(config, services.now_ms)
    model = "BROADCASTING" if where == "broadcast" else "CLUSTERING"
    peer, other = FakePeer(), FakePeer()
    peer.is_congested = where == "congested"
    beat(services, peer, heartbeat("c1", group, model=model))
    assert members(services, group) == ["c1"]
    beat(services, other, heartbeat("c2", group, model=model))
    assert peer.told == []
    assert other.told_codes == ([NOTIFY] if where == "congested" else [])


def test_silent_clients_are_taken_out(services: Services, clock: FakeClock, group: str) -> None:
    silent, alive = FakePeer(), FakePeer()
    for client, peer in (("c1", silent), ("c2", alive)):
        beat(services, peer, heartbeat(client, group))
    clock.advance(clients.EXPIRY_NS)
    beat(services, alive, heartbeat("c2", group))
    clock.advance(1)
    alive.told.clear()
    services.heartbeats.end_silent_clients()
    assert (silent.is_closed, alive.is_closed) == (True, False)
    assert alive.told_codes == [NOTIFY]
    assert members(services, group) == ["c2"]


def test_bad_sql_does_not_lose_the_rest_of_a_heartbeat(services: Services, group: str) -> None:
    body = heartbeat("c1", group, text="a >", kind="SQL92", producers=("P",))
    assert beat(services, FakePeer(), body).code == 0
    assert members(services, group) == ["c1"]
    assert services.clients.producer_of("c1") is not None
    assert services.clients.consumers[group].subscriptions["T"].problem


def test_groups_with_illegal_names_are_left_out(services: Services, group: str) -> None:
    topics = set(services.topics.configs)
    beat(services, FakePeer(), heartbeat("c1", "no such name", group))
    assert list(services.clients.consumers) == [group]
    assert set(services.topics.configs) == topics


def test_where_groups_are_not_made_a_heartbeat_makes_none(services: Services) -> None:
    services.settings.auto_create_subscription_group = False
    beat(services, FakePeer(), heartbeat("c1", "new"))
    assert "new" not in services.groups.configs
    assert "%RETRY%new" not in services.topics.configs
    assert members(services, "new") == ["c1"], "as in 4.9; its pulls are refused"


def test_the_number_of_groups_is_bounded(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_table, "GROUPS_MAX", len(services.groups.configs))
    with pytest.raises(BodyError, match="consumer groups"):
        beat(services, FakePeer(), heartbeat("c1", "one-too-many"))


@pytest.mark.parametrize(
    ("kind", "text", "enabled", "code"),
    [("TAG", "||", False, 0), ("SQL92", "a > 1", False, 1), ("SQL92", "a > 1", True, 0),
     ("SQL92", "a > > 1", True, 23), ("LUA", "x", True, 23), ("", "", True, 0)],
)  # fmt: skip
def test_checking_a_filter(
    services: Services, kind: str, text: str, enabled: bool, code: int
) -> None:
    services.settings.enable_property_filter = enabled
    data = {"topic": "T", "subString": text, "expressionType": kind}
    body = {"clientId": "c", "group": "G", "subscriptionData": data} if kind else {}
    answer = ask(services, Code.CHECK_CLIENT_CONFIG, fastjson.dumps(body))
    assert answer.code == code
    assert (answer.remark is not None) == bool(code)


# --- what groups have of their own ----------------------------------------------------------------


def test_topics_of_a_group_are_made_once_and_registered(services: Services) -> None:
    changes: list[None] = []
    services.topics.listeners.append(lambda: changes.append(None))
    services.groups.put(GroupConfig("G", retry_queue_nums=3), services.now_ms)
    config = services.group_topics.need("G")
    topic = services.group_topics.retry_topic(config, unit_mode=True)
    assert (topic.name, topic.read_queues, topic.write_queues) == ("%RETRY%G", 3, 3)
    assert (topic.perm, topic.sys_flag) == (6, 2)
    assert services.group_topics.retry_topic(config) is topic
    dead = services.group_topics.dead_letter_topic("G")
    assert (dead.name, dead.read_queues, dead.write_queues, dead.perm) == ("%DLQ%G", 1, 1, 6)
    assert len(changes) == 2


def test_groups_that_there_are_not(services: Services) -> None:
    assert services.group_topics.need("new").group_name == "new"
    services.settings.auto_create_subscription_group = False
    with refused(26, "subscription group not exist, newer"):
        services.group_topics.need("newer")
    with refused(1, "illegal characters"):
        services.group_topics.need("no such name")


async def test_lag_and_members(services: Services) -> None:
    figures = services.group_figures
    assert (figures.consumer_groups("T"), figures.producer_groups()) == ([], [])
    services.topics.put(TopicConfig("T", 3, 3), services.now_ms)
    await store(services, "T", 0, b"a", b"b", b"c")
    await store(services, "T", 1, b"d")
    for client in ("c1", "c2"):
        join(services, client, "G", producers=("PG",))
    for group, queue, offset in (("G", 0, 1), ("ahead", 0, 99), ("ahead", 1, 1)):
        services.offsets.commit("T", group, queue, offset)
    by_name = {each.name: each for each in figures.consumer_groups("T")}
    assert by_name.keys() == {"G", "ahead"}
    group_, ahead = by_name["G"], by_name["ahead"]
    assert (group_.model, group_.lag, group_.rate) == ("CLUSTERING", 3, 0.0)
    assert group_.committed == {0: 1}
    assert [member.client_id for member in group_.members] == ["c1", "c2"]
    assert (ahead.lag, ahead.members) == (0, [])
    (producers,) = figures.producer_groups()
    assert (producers.name, len(producers.members)) == ("PG", 2)


# --- locks ----------------------------------------------------------------------------------------


def locking(client: str, *queues: int, group: str = "G") -> bytes:
    wanted = [{"brokerName": "b", "queueId": number, "topic": "T"} for number in queues]
    return json.dumps({"clientId": client, "consumerGroup": group, "mqSet": wanted}).encode()


def lock(services: Services, client: str, *queues: int) -> list[int]:
    held = ask_json(services, Code.LOCK_BATCH_MQ, locking(client, *queues))["lockOKMQSet"]
    assert all(set(queue) == {"brokerName", "queueId", "topic"} for queue in held)
    return [queue["queueId"] for queue in held]


def test_locking_and_giving_back(services: Services, clock: FakeClock) -> None:
    assert lock(services, "c1", 0, 1) == [0, 1]
    assert lock(services, "c2", 0, 1, 2) == [2]
    answer = ask(services, Code.UNLOCK_BATCH_MQ, locking("c1", 1, 2))
    assert (answer.code, answer.body) == (0, b"")
    assert lock(services, "c2", 0, 1, 2) == [1, 2]
    clock.advance(queue_locks.EXPIRY_NS + 1)
    services.orderly_locks.forget_expired()
    assert lock(services, "c3", 0, 1, 2) == [0, 1, 2], "nobody has renewed them"


@pytest.mark.parametrize(
    "changes",
    [{"clientId": ""}, {"consumerGroup": None}, {"mqSet": 1},
     {"mqSet": [{"brokerName": "b", "topic": "T"}]}, {"consumerGroup": "G" * 256},
     {"clientId": "c" * 1025}, {"mqSet": [{"brokerName": "b", "topic": "T" * 256, "queueId": 0}]},
     {"mqSet": [1] * (orderly.QUEUES_MAX + 1)}, None],
)  # fmt: skip
def test_what_asks_for_no_locks(services: Services, changes: dict[str, Any] | None) -> None:
    value = [] if changes is None else {"clientId": "c", "consumerGroup": "G", **changes}
    with pytest.raises(BodyError):
        ask(services, Code.LOCK_BATCH_MQ, fastjson.dumps(value))
