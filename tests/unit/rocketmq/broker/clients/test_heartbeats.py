"""Clients that join and leave groups."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.clients import group_topics, heartbeats
from penstock.rocketmq.broker.controller import Controller
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
def group(controller: Controller) -> str:
    """A group that there is already, so that heartbeats are answered at once."""
    group_topics.retry_topic(controller, group_topics.need_group(controller, "G"))
    return "G"


def beat(controller: Controller, peer: FakePeer, body: bytes) -> Command | None:
    return hand_over(controller, peer.connection, request(34, body))


def members(controller: Controller, group: str) -> list[str]:
    answer = answered(controller, FakePeer().connection, request(38, consumerGroup=group))
    return list(fastjson.loads(answer.body)["consumerIdList"]) if answer.code == 0 else []


def test_all_members_hear_of_a_new_one_and_so_does_it(controller: Controller, group: str) -> None:
    one, two = FakePeer(), FakePeer()
    answer = beat(controller, one, heartbeat("c1", group))
    assert answer is not None
    assert (answer.code, answer.ext) == (0, None)
    assert one.told == [(NOTIFY, {"consumerGroup": group}, b"")]
    beat(controller, two, heartbeat("c2", group))
    assert (one.told_codes, two.told_codes) == ([40, 40], [40])
    beat(controller, two, heartbeat("c2", group))
    assert (one.told_codes, two.told_codes) == ([40, 40], [40])
    beat(controller, two, heartbeat("c2", group, topic="U"))
    assert (one.told_codes, two.told_codes) == ([40, 40, 40], [40, 40])
    assert members(controller, group) == ["c1", "c2"]


def test_the_rest_hears_of_who_leaves(controller: Controller, group: str) -> None:
    one, two, three = FakePeer(), FakePeer(), FakePeer()
    for number, peer in enumerate((one, two, three)):
        beat(controller, peer, heartbeat(f"c{number}", group))
        peer.told.clear()
    one.told.clear()
    two.told.clear()
    leaving = request(35, clientID="c0", producerGroup="", consumerGroup=group)
    answer = answered(controller, one.connection, leaving)
    assert (answer.code, answer.ext) == (0, {})
    assert (one.told_codes, two.told_codes, three.told_codes) == ([], [40], [40])
    heartbeats.connection_ended(controller, two.connection)
    assert (two.told_codes, three.told_codes) == ([40], [40, 40])
    assert members(controller, group) == ["c2"]
    heartbeats.connection_ended(controller, three.connection)
    assert members(controller, group) == []


@pytest.mark.parametrize("where", ["broker", "group", "broadcast"])
def test_who_is_not_notified(controller: Controller, group: str, where: str) -> None:
    if where == "broker":
        controller.settings.notify_consumer_ids_changed_enable = False
    elif where == "group":
        config = GroupConfig(group, notify_consumer_ids_changed_enable=False)
        controller.groups.put(config, controller.now_ms)
    model = "BROADCASTING" if where == "broadcast" else "CLUSTERING"
    peer = FakePeer()
    beat(controller, peer, heartbeat("c1", group, model=model))
    assert peer.told == []
    assert members(controller, group) == ["c1"]


def test_a_member_that_does_not_read_is_told_nothing(controller: Controller, group: str) -> None:
    one, two = FakePeer(), FakePeer()
    one.is_congested = True
    beat(controller, one, heartbeat("c1", group))
    beat(controller, two, heartbeat("c2", group))
    assert (one.told_codes, two.told_codes) == ([], [40])


def test_nobody_there(controller: Controller) -> None:
    answer = answered(controller, FakePeer().connection, request(38, consumerGroup="x"))
    assert (answer.code, answer.remark) == (1, "no consumer for this group, x")
    assert answer.ext == {}


def test_silent_clients_are_taken_out(controller: Controller, clock: FakeClock, group: str) -> None:
    silent, alive = FakePeer(), FakePeer()
    beat(controller, silent, heartbeat("c1", group))
    beat(controller, alive, heartbeat("c2", group))
    clock.advance(clients.EXPIRY_NS)
    beat(controller, alive, heartbeat("c2", group))
    clock.advance(1)
    alive.told.clear()
    heartbeats.end_silent_clients(controller)
    assert (silent.is_closed, alive.is_closed) == (True, False)
    assert alive.told_codes == [40]
    assert members(controller, group) == ["c2"]


def test_bad_sql_does_not_lose_the_rest_of_a_heartbeat(controller: Controller, group: str) -> None:
    body = heartbeat("c1", group, text="a >", kind="SQL92", producers=("P",))
    answer = beat(controller, FakePeer(), body)
    assert answer is not None
    assert answer.code == 0
    assert members(controller, group) == ["c1"]
    assert controller.clients.producer_of("c1") is not None
    assert controller.clients.consumers[group].subscriptions["T"].problem


def test_illegal_groups_are_left_out(controller: Controller, group: str) -> None:
    topics = set(controller.topics.configs)
    beat(controller, FakePeer(), heartbeat("c1", "no such name", group))
    assert list(controller.clients.consumers) == [group]
    assert set(controller.topics.configs) == topics


def test_groups_are_made_unless_that_is_off(controller: Controller) -> None:
    controller.settings.auto_create_subscription_group = False
    answer = beat(controller, FakePeer(), heartbeat("c1", "new"))
    assert answer is not None
    assert "new" not in controller.groups.configs
    assert "%RETRY%new" not in controller.topics.configs
    assert members(controller, "new") == ["c1"], "as in 4.9; its pulls are refused"


def test_bounded(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS_MAX", len(controller.groups.configs))
    with pytest.raises(BodyError, match="consumer groups"):
        beat(controller, FakePeer(), heartbeat("c1", "one-too-many"))


@pytest.mark.parametrize(
    ("kind", "text", "enabled", "code"),
    [("TAG", "||", False, 0), ("SQL92", "a > 1", False, 1), ("SQL92", "a > 1", True, 0),
     ("SQL92", "a > > 1", True, 23), ("LUA", "x", True, 23)],
)  # fmt: skip
def test_checking_a_filter(
    controller: Controller, kind: str, text: str, enabled: bool, code: int
) -> None:
    controller.settings.enable_property_filter = enabled
    data = {"topic": "T", "subString": text, "expressionType": kind}
    body = fastjson.dumps({"clientId": "c", "group": "G", "subscriptionData": data})
    answer = answered(controller, FakePeer().connection, request(46, body))
    assert answer.code == code
    assert (answer.remark is not None) == bool(code)


def test_checking_nothing(controller: Controller) -> None:
    answer = answered(controller, FakePeer().connection, request(46, b"{}"))
    assert answer.code == 0
