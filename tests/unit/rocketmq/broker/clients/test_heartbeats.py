"""Clients that join and leave groups."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.services import Services
from penstock.rocketmq.broker.state import clients, groups
from penstock.rocketmq.broker.state.groups import GroupConfig
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.testing.clock import FakeClock
from tests.unit.rocketmq.broker.peers import FakePeer, answered, hand_over, heartbeat, request

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


@pytest.fixture
def group(services: Services) -> str:
    """A group that there is already, so that heartbeats are answered at once."""
    services.group_topics.retry_topic(services.group_topics.need("G"))
    return "G"


def beat(services: Services, peer: FakePeer, body: bytes) -> Command | None:
    return hand_over(services, peer.connection, request(34, body))


def members(services: Services, group: str) -> list[str]:
    answer = answered(services, FakePeer().connection, request(38, consumerGroup=group))
    return list(fastjson.loads(answer.body)["consumerIdList"]) if answer.code == 0 else []


def test_all_members_hear_of_a_new_one_and_so_does_it(services: Services, group: str) -> None:
    one, two = FakePeer(), FakePeer()
    answer = beat(services, one, heartbeat("c1", group))
    assert answer is not None
    assert (answer.code, answer.ext) == (0, None)
    assert one.told == [(NOTIFY, {"consumerGroup": group}, b"")]
    beat(services, two, heartbeat("c2", group))
    assert (one.told_codes, two.told_codes) == ([40, 40], [40])
    beat(services, two, heartbeat("c2", group))
    assert (one.told_codes, two.told_codes) == ([40, 40], [40])
    beat(services, two, heartbeat("c2", group, topic="U"))
    assert (one.told_codes, two.told_codes) == ([40, 40, 40], [40, 40])
    assert members(services, group) == ["c1", "c2"]


def test_the_rest_hears_of_who_leaves(services: Services, group: str) -> None:
    one, two, three = FakePeer(), FakePeer(), FakePeer()
    for number, peer in enumerate((one, two, three)):
        beat(services, peer, heartbeat(f"c{number}", group))
        peer.told.clear()
    one.told.clear()
    two.told.clear()
    leaving = request(35, clientID="c0", producerGroup="", consumerGroup=group)
    answer = answered(services, one.connection, leaving)
    assert (answer.code, answer.ext) == (0, {})
    assert (one.told_codes, two.told_codes, three.told_codes) == ([], [40], [40])
    services.heartbeats.connection_ended(two.connection)
    assert (two.told_codes, three.told_codes) == ([40], [40, 40])
    assert members(services, group) == ["c2"]
    services.heartbeats.connection_ended(three.connection)
    assert members(services, group) == []


@pytest.mark.parametrize("where", ["broker", "group", "broadcast"])
def test_who_is_not_notified(services: Services, group: str, where: str) -> None:
    if where == "broker":
        services.settings.notify_consumer_ids_changed_enable = False
    elif where == "group":
        config = GroupConfig(group, notify_consumer_ids_changed_enable=False)
        services.groups.put(config, services.now_ms)
    model = "BROADCASTING" if where == "broadcast" else "CLUSTERING"
    peer = FakePeer()
    beat(services, peer, heartbeat("c1", group, model=model))
    assert peer.told == []
    assert members(services, group) == ["c1"]


def test_a_member_that_does_not_read_is_told_nothing(services: Services, group: str) -> None:
    one, two = FakePeer(), FakePeer()
    one.is_congested = True
    beat(services, one, heartbeat("c1", group))
    beat(services, two, heartbeat("c2", group))
    assert (one.told_codes, two.told_codes) == ([], [40])


def test_nobody_there(services: Services) -> None:
    answer = answered(services, FakePeer().connection, request(38, consumerGroup="x"))
    assert (answer.code, answer.remark) == (1, "no consumer for this group, x")
    assert answer.ext == {}


def test_silent_clients_are_taken_out(services: Services, clock: FakeClock, group: str) -> None:
    silent, alive = FakePeer(), FakePeer()
    beat(services, silent, heartbeat("c1", group))
    beat(services, alive, heartbeat("c2", group))
    clock.advance(clients.EXPIRY_NS)
    beat(services, alive, heartbeat("c2", group))
    clock.advance(1)
    alive.told.clear()
    services.heartbeats.end_silent_clients()
    assert (silent.is_closed, alive.is_closed) == (True, False)
    assert alive.told_codes == [40]
    assert members(services, group) == ["c2"]


def test_bad_sql_does_not_lose_the_rest_of_a_heartbeat(services: Services, group: str) -> None:
    body = heartbeat("c1", group, text="a >", kind="SQL92", producers=("P",))
    answer = beat(services, FakePeer(), body)
    assert answer is not None
    assert answer.code == 0
    assert members(services, group) == ["c1"]
    assert services.clients.producer_of("c1") is not None
    assert services.clients.consumers[group].subscriptions["T"].problem


def test_illegal_groups_are_left_out(services: Services, group: str) -> None:
    topics = set(services.topics.configs)
    beat(services, FakePeer(), heartbeat("c1", "no such name", group))
    assert list(services.clients.consumers) == [group]
    assert set(services.topics.configs) == topics


def test_groups_are_made_unless_that_is_off(services: Services) -> None:
    services.settings.auto_create_subscription_group = False
    answer = beat(services, FakePeer(), heartbeat("c1", "new"))
    assert answer is not None
    assert "new" not in services.groups.configs
    assert "%RETRY%new" not in services.topics.configs
    assert members(services, "new") == ["c1"], "as in 4.9; its pulls are refused"


def test_bounded(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS_MAX", len(services.groups.configs))
    with pytest.raises(BodyError, match="consumer groups"):
        beat(services, FakePeer(), heartbeat("c1", "one-too-many"))


@pytest.mark.parametrize(
    ("kind", "text", "enabled", "code"),
    [("TAG", "||", False, 0), ("SQL92", "a > 1", False, 1), ("SQL92", "a > 1", True, 0),
     ("SQL92", "a > > 1", True, 23), ("LUA", "x", True, 23)],
)  # fmt: skip
def test_checking_a_filter(
    services: Services, kind: str, text: str, enabled: bool, code: int
) -> None:
    services.settings.enable_property_filter = enabled
    data = {"topic": "T", "subString": text, "expressionType": kind}
    body = fastjson.dumps({"clientId": "c", "group": "G", "subscriptionData": data})
    answer = answered(services, FakePeer().connection, request(46, body))
    assert answer.code == code
    assert (answer.remark is not None) == bool(code)


def test_checking_nothing(services: Services) -> None:
    answer = answered(services, FakePeer().connection, request(46, b"{}"))
    assert answer.code == 0
