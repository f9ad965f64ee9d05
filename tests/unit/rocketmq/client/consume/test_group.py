"""A member of a group without a network: sharing, locks, commits."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.consume.consuming import Consumption
from penstock.rocketmq.client.consume.filters import Filter, sql
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.errors import BadFilter
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import NAME_SERVER, Answer, MemoryHub

QUEUES = [MessageQueue("a", number, "T") for number in range(4)]
CHANGED = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def made(**kind: Any) -> tuple[MemoryHub, Brokers, Consumption]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T", queues=4)
    group = Consumption("G", hub, ConsumerKind(**kind))
    group.subscribe("T", Filter())
    return hub, brokers, group


def begun(**kind: Any) -> tuple[MemoryHub, Brokers, Consumption]:
    hub, brokers, group = made(**kind)
    hub.does(Job(group.begin()))
    hub.passes(1)
    return hub, brokers, group


def members_change(hub: MemoryHub, brokers: Brokers, *members: str) -> None:
    brokers.members = [hub.client_id, *members]
    hub.receive("a:10911", Command(CHANGED, 1, {"consumerGroup": "G"}, flag=ONE_WAY))
    hub.passes(0.1)


def test_a_member_alone_has_all_queues() -> None:
    hub, _, group = begun()
    assert sorted(group.held) == QUEUES
    beat = fastjson.loads(hub.requests(RequestCode.HEART_BEAT)[0].body)["consumerDataSet"][0]
    assert (beat["groupName"], beat["consumeType"]) == ("G", "CONSUME_PASSIVELY")
    assert [each["topic"] for each in beat["subscriptionDataSet"]] == ["T"]


def test_a_topic_is_subscribed_while_the_group_is_being_joined() -> None:
    hub = MemoryHub()
    Brokers(hub, "T", "U")
    group = Consumption("G", hub, ConsumerKind())
    group.subscribe("T", Filter())
    joining = Job(group.begin())
    group.subscribe("U", Filter())  # as another task of the program does
    hub.does(joining)
    hub.passes(1)
    assert {queue.topic for queue in group.held} == {"T", "U"}
    beat = fastjson.loads(hub.requests(RequestCode.HEART_BEAT)[-1].body)["consumerDataSet"][0]
    assert [each["topic"] for each in beat["subscriptionDataSet"]] == ["T", "U"]


def test_a_topic_that_is_subscribed_after_the_end_brings_nobody_back() -> None:
    hub, _, group = begun()
    group.stop()
    hub.does(Job(group.leave()))
    beats = len(hub.requests(RequestCode.HEART_BEAT))
    group.subscribe("U", Filter())
    hub.passes(1)
    assert len(hub.requests(RequestCode.HEART_BEAT)) == beats


def test_a_topic_that_is_subscribed_after_the_first_heartbeat_is_told() -> None:
    hub = MemoryHub()
    Brokers(hub, "T", "U")
    group = Consumption("G", hub, ConsumerKind())
    group.subscribe("T", Filter())
    hub.does(Job(group.begin()), seconds=0)
    assert not group.held
    group.subscribe("U", Filter())
    hub.passes(1)
    assert {queue.topic for queue in group.held} == {"T", "U"}
    beat = fastjson.loads(hub.requests(RequestCode.HEART_BEAT)[-1].body)["consumerDataSet"][0]
    assert [each["topic"] for each in beat["subscriptionDataSet"]] == ["T", "U"]


def silenced(hub: MemoryHub, broker: str) -> None:
    """The broker's machine is off: it answers nothing, and each question takes its whole time."""
    for code, serve in list(hub.answers.items()):

        def answer(address: str, request: Command, serve: Answer = serve) -> Command | None:
            return None if address.startswith(f"{broker}:") else serve(address, request)

        hub.answers[code] = answer


@pytest.mark.parametrize("is_orderly", [False, True])
def test_queues_of_a_broker_that_is_gone_hold_up_no_others(is_orderly: bool) -> None:
    hub = MemoryHub()
    Brokers(hub, *"TUVW", names="ab", queues=4)
    silenced(hub, "a")
    group = Consumption("G", hub, ConsumerKind(is_orderly=is_orderly))
    for topic in "TUVW":
        group.subscribe(topic, Filter())
    hub.does(Job(group.begin()))
    hub.passes(12)  # twice the time of a request: for the list of members, and for a lock
    assert len([queue for queue in group.held if queue.brokerName == "b"]) == 16
    assert not [queue for queue in group.held if queue.brokerName == "a"]


def test_the_retry_topic_is_subscribed_where_there_is_one() -> None:
    _, _, group = begun(has_retries=True)
    assert {queue.topic for queue in group.held} == {"T", "%RETRY%G"}


def test_queues_are_shared_when_members_change() -> None:
    hub, brokers, group = begun()
    told: list[list[MessageQueue]] = []
    group.on_queues_changed = told.append
    brokers.put(QUEUES[3], b"x")
    hub.passes(0.1)
    members_change(hub, brokers, "zzz")
    assert sorted(group.held) == QUEUES[:2]
    assert brokers.offsets[QUEUES[3]] == 0  # it was not done
    members_change(hub, brokers)
    assert sorted(group.held) == QUEUES
    assert told == [QUEUES[:2], QUEUES]


def test_a_member_that_the_broker_forgot_takes_no_queues() -> None:
    hub, brokers, group = begun()
    brokers.members = ["other"]
    hub.passes(21)
    assert not group.held
    brokers.members.append(hub.client_id)
    hub.passes(21)
    assert len(group.held) == 2


def test_when_the_members_cannot_be_had_all_stays_as_it_is() -> None:
    hub, _, group = begun()
    hub.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _, r: r.answer(1, "no")
    hub.passes(21)
    assert sorted(group.held) == QUEUES
    hub.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _, r: r.answer(body=b"[]")
    hub.passes(21)
    assert sorted(group.held) == QUEUES


def test_a_queue_whose_offset_is_not_known_is_taken_later() -> None:
    hub, _, group = made()
    ask = hub.answers[RequestCode.QUERY_CONSUMER_OFFSET]
    hub.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _, r: r.answer(1, "busy")
    hub.does(Job(group.begin()))
    hub.passes(1)
    assert not group.held
    hub.answers[RequestCode.QUERY_CONSUMER_OFFSET] = ask
    hub.passes(1)
    assert sorted(group.held) == QUEUES


def test_an_illegal_offset_goes_on_where_the_broker_says() -> None:
    hub, brokers, group = made()
    brokers.offsets[QUEUES[0]] = 99
    hub.does(Job(group.begin()))
    hub.passes(1)
    assert group.held[QUEUES[0]].next_offset == 0


def test_offsets_are_committed_every_five_seconds_when_they_have_changed() -> None:
    hub, brokers, group = begun()
    hub.passes(5)
    assert brokers.offsets == dict.fromkeys(QUEUES, 0)
    before = len(hub.requests(RequestCode.UPDATE_CONSUMER_OFFSET))
    hub.passes(10)
    assert len(hub.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == before
    brokers.put(QUEUES[1], b"x", b"y")
    group.pull_again(group.held[QUEUES[1]])
    hub.passes(0.1)
    unit = group.take(8)
    assert unit is not None
    group.finished(unit)
    hub.passes(5)
    assert brokers.offsets[QUEUES[1]] == 2


def test_a_commit_that_fails_is_tried_again() -> None:
    hub, brokers, _ = begun()
    commit = hub.answers[RequestCode.UPDATE_CONSUMER_OFFSET]
    hub.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = lambda _, r: r.answer(1, "no")
    hub.passes(5)
    hub.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = commit
    hub.passes(5)
    assert len(brokers.offsets) == 4


def test_a_pull_that_fails_is_repeated_after_a_pause() -> None:
    hub, brokers, _ = begun()
    hub.answers[RequestCode.PULL_MESSAGE] = lambda _, r: r.answer(2, "busy")
    hub.lose(hub.connections["a:10911"], BadFilter("a", 23, "x"))
    hub.passes(0.1)
    asked = len(hub.requests(RequestCode.PULL_MESSAGE))
    hub.passes(2.5)
    assert len(hub.requests(RequestCode.PULL_MESSAGE)) == asked
    hub.passes(1)
    assert len(hub.requests(RequestCode.PULL_MESSAGE)) > asked
    assert brokers.pulls


def test_a_filter_is_checked_at_the_start() -> None:
    hub, _, group = made()
    group.subscribe("T", sql("a >"))
    hub.answers[RequestCode.CHECK_CLIENT_CONFIG] = lambda _, request: request.answer(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, "unexpected end"
    )
    with pytest.raises(BadFilter, match="a >"):
        hub.does(Job(group.begin()))


def test_topics_can_be_added_and_taken_away() -> None:
    hub, brokers, group = begun()
    hub.has_topic("U")
    group.subscribe("U", Filter())
    hub.passes(1)
    assert {queue.topic for queue in group.held} == {"T", "U"}
    group.unsubscribe("T")
    hub.passes(1)
    assert {queue.topic for queue in group.held} == {"U"}
    assert set(brokers.offsets) == set(QUEUES)


def test_pausing_ends_pulls_and_resuming_goes_on() -> None:
    hub, brokers, group = begun()
    group.pause([QUEUES[0]], is_paused=True)
    group.pull_again(group.held[QUEUES[0]])
    hub.passes(0.1)
    pulls = brokers.pulls
    group.pause([], is_paused=False)
    hub.passes(0.1)
    assert brokers.pulls > pulls


# --- in order -------------------------------------------------------------------------------------


def test_queues_that_others_have_locked_are_taken_when_they_are_free() -> None:
    hub, brokers, group = made(is_orderly=True)
    brokers.others_locks = {QUEUES[2]}
    hub.does(Job(group.begin()))
    hub.passes(1)
    assert sorted(group.held) == [QUEUES[0], QUEUES[1], QUEUES[3]]
    brokers.others_locks.clear()
    hub.passes(1)
    assert sorted(group.held) == QUEUES


def test_a_lock_counts_from_when_it_was_asked_for_however_long_offsets_take() -> None:
    hub = MemoryHub()
    brokers = Brokers(hub, "T", names="ab", queues=2)
    group = Consumption("G", hub, ConsumerKind(is_orderly=True))
    group.subscribe("T", Filter())
    read = hub.answers[RequestCode.QUERY_CONSUMER_OFFSET]
    hub.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda address, request: (
        read(address, request) if address.startswith("b") else None
    )
    locked_at: list[int] = []
    lock = brokers._lock

    def locks(address: str, request: Command) -> Command:
        if address.startswith("b"):
            locked_at.append(hub.clock.monotonic_ns())
        return lock(address, request)

    hub.answers[RequestCode.LOCK_BATCH_MQ] = locks
    hub.does(Job(group.begin()))
    hub.passes(14)
    assert {queue.brokerName for queue in group.held} == {"b"}
    assert {held.locked_ns for held in group.held.values()} == {locked_at[0]}


def test_a_queue_is_given_back_when_its_message_is_done_and_committed() -> None:
    hub, brokers, group = begun(is_orderly=True)
    brokers.put(QUEUES[3], b"x", b"y")
    group.pull_again(group.held[QUEUES[3]])
    hub.passes(0.1)
    unit = group.take(1)
    assert unit is not None
    members_change(hub, brokers, "zzz")
    hub.passes(90)  # a slow handler; the lock is kept meanwhile
    assert QUEUES[3] in brokers.locked
    assert QUEUES[2] not in brokers.locked
    assert len(hub.requests(RequestCode.LOCK_BATCH_MQ)) > 4
    group.finished(unit)
    hub.passes(1)
    assert QUEUES[3] not in brokers.locked
    assert brokers.offsets[QUEUES[3]] == 1
    assert group.take(1) is None


def test_a_lock_that_is_lost_stops_its_queue_and_what_is_done_is_not_done_again() -> None:
    hub, brokers, group = begun(is_orderly=True)
    brokers.put(QUEUES[0], b"x", b"y", b"z")
    group.pull_again(group.held[QUEUES[0]])
    hub.passes(0.1)
    unit = group.take(1)
    assert unit is not None
    group.finished(unit)
    brokers.others_locks = {QUEUES[0]}
    hub.passes(21)
    assert QUEUES[0] not in group.held
    assert group.take(1) is None
    brokers.others_locks.clear()
    brokers.offsets.clear()  # the broker was restarted, and has forgotten
    hub.passes(3)
    unit = group.take(1)
    assert unit is not None
    assert [each.body for each in unit.messages] == [b"y"]


def test_what_was_done_before_a_queue_was_another_member_s_counts_no_more() -> None:
    hub, brokers, group = begun(is_orderly=True)
    queue = QUEUES[3]
    brokers.put(queue, b"x", b"y")
    group.pull_again(group.held[queue])
    hub.passes(0.1)
    unit = group.take(1)
    assert unit is not None
    group.finished(unit)
    brokers.others_locks = {queue}
    hub.passes(21)
    members_change(hub, brokers, "zzz")
    hub.passes(21)
    brokers.offsets[queue] = 0  # the group was told to go back, and the other member did
    brokers.others_locks.clear()
    members_change(hub, brokers)
    hub.passes(3)
    unit = group.take(1)
    assert unit is not None
    assert [each.body for each in unit.messages] == [b"x"]


def test_queues_that_are_lost_with_their_locks_are_told() -> None:
    hub, brokers, group = begun(is_orderly=True)
    told: list[list[MessageQueue]] = []
    group.on_queues_changed = told.append
    brokers.others_locks = {QUEUES[0]}
    hub.passes(21)
    assert told == [QUEUES[1:]]
    brokers.others_locks.clear()
    hub.passes(3)
    assert told == [QUEUES[1:], QUEUES]


def test_a_lost_broker_ends_its_locks() -> None:
    hub, brokers, group = begun(is_orderly=True)
    before = dict(group.held)
    brokers.locked.clear()
    hub.lose(hub.connections["a:10911"], BadFilter("a", 23, "x"))
    assert not group.held
    hub.passes(2)
    assert sorted(group.held) == QUEUES
    assert brokers.locked == set(QUEUES)
    assert all(group.held[queue] is not held for queue, held in before.items())


def test_leaving_commits_unlocks_and_tells_in_this_order() -> None:
    hub, brokers, group = begun(is_orderly=True)
    hub.log.clear()
    group.stop()
    hub.does(Job(group.leave()))
    codes = hub.codes()
    assert not brokers.locked
    last_commit = max(i for i, c in enumerate(codes) if c == RequestCode.UPDATE_CONSUMER_OFFSET)
    assert codes.index(RequestCode.UNLOCK_BATCH_MQ) < len(codes)
    assert codes[-1] == RequestCode.UNREGISTER_CLIENT
    assert last_commit < len(codes) - 1


def test_a_broker_that_is_not_to_hold_pulls_is_asked_now_and_then() -> None:
    config = Config(namesrv_addr=NAME_SERVER, client_ip="10.0.0.1", broker_suspend_max_time=0)
    hub = MemoryHub(config)
    brokers = Brokers(hub, "T", queues=1)
    pull = hub.answers[RequestCode.PULL_MESSAGE]

    def once(address: str, request: Command) -> Command | None:
        brokers.answers_waiting_pulls = brokers.pulls >= 20  # else it would never end
        return pull(address, request)

    hub.answers[RequestCode.PULL_MESSAGE] = once
    group = Consumption("G", hub, ConsumerKind())
    group.subscribe("T", Filter())
    hub.does(Job(group.begin()))
    hub.passes(5)
    assert 3 <= brokers.pulls <= 10
    brokers.put(MessageQueue("a", 0, "T"), b"x")
    hub.passes(2)
    assert group.held[MessageQueue("a", 0, "T")].count == 1
