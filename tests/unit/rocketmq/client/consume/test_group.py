"""A member of a group without a network: sharing, locks, commits, heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.rocketmq.client.consume import allocation
from penstock.rocketmq.client.consume.consuming import Consumption
from penstock.rocketmq.client.consume.filters import Filter
from penstock.rocketmq.client.consume.group import ConsumerKind
from penstock.rocketmq.client.consume.heartbeats import Heartbeats
from penstock.rocketmq.client.consume.locks import Locks
from penstock.rocketmq.client.consume.members import Members
from penstock.rocketmq.client.errors import BadAnswer, NotFound
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from tests.unit.rocketmq.client.brokers import Brokers, bodies, taken
from tests.unit.rocketmq.client.memory_hub import MemoryHub, answering, refusing

QUEUES = [MessageQueue("a", number, "T") for number in range(4)]
BEAT, LIST = RequestCode.HEART_BEAT, RequestCode.GET_CONSUMER_LIST_BY_GROUP
CHANGED = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def made(**kind: Any) -> tuple[MemoryHub, Brokers, Consumption]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T", queues=4)
    group = Consumption("G", hub, ConsumerKind(**kind))
    group.subscribe("T", Filter())
    return hub, brokers, group


def begun(**kind: Any) -> tuple[MemoryHub, Brokers, Consumption]:
    hub, brokers, group = made(**kind)
    hub.does(group.begin())
    hub.passes(1)
    return hub, brokers, group


def beaten(hub: MemoryHub) -> list[str]:
    """Who was sent a heartbeat."""
    return [address for address, request in hub.log if request.code == BEAT]


def subscribed(hub: MemoryHub) -> list[str]:
    """The topics in the last heartbeat."""
    beat = fastjson.loads(hub.requests(BEAT)[-1].body)["consumerDataSet"][0]
    assert (beat["groupName"], beat["consumeType"]) == ("G", "CONSUME_PASSIVELY")
    return [each["topic"] for each in beat["subscriptionDataSet"]]


def arrive(
    hub: MemoryHub, brokers: Brokers, group: Consumption, queue: MessageQueue, *bodies: bytes
) -> None:
    """Messages are stored, and pulled."""
    brokers.put(queue, *bodies)
    group.pull_again(group.held[queue])
    hub.passes(0.1)


def members_change(hub: MemoryHub, brokers: Brokers, *members: str) -> None:
    brokers.members = [hub.client_id, *members]
    hub.receive("a:10911", Command(CHANGED, 1, {"consumerGroup": "G"}, flag=ONE_WAY))
    hub.passes(0.1)


@pytest.mark.parametrize("is_heard", [False, True], ids=["before a heartbeat", "after one"])
def test_a_topic_is_subscribed_while_the_group_is_being_joined(is_heard: bool) -> None:
    """As by another task of the program."""
    hub = MemoryHub()
    Brokers(hub, "T", "U")
    group = Consumption("G", hub, ConsumerKind())
    group.subscribe("T", Filter())
    joining = Job(group.begin())
    if is_heard:
        hub.does(joining, seconds=0)
        assert not group.held
    group.subscribe("U", Filter())
    hub.does(joining)
    hub.passes(1)
    assert {queue.topic for queue in group.held} == {"T", "U"}
    assert subscribed(hub) == ["T", "U"]


def test_a_topic_that_is_subscribed_after_the_end_brings_nobody_back() -> None:
    hub, _, group = begun()
    group.stop()
    hub.does(group.leave())
    hub.log.clear()
    group.subscribe("U", Filter())
    hub.passes(1)
    assert not beaten(hub)


@pytest.mark.parametrize("is_orderly", [False, True])
def test_queues_of_a_broker_that_is_gone_hold_up_no_others(is_orderly: bool) -> None:
    """Its machine is off: it answers nothing, and each question takes its whole time."""
    hub = MemoryHub()
    Brokers(hub, *"TUVW", names="ab", queues=4)
    for code, serve in list(hub.answers.items()):
        hub.answers[code] = lambda address, request, serve=serve: (
            None if address.startswith("a:") else serve(address, request)
        )
    group = Consumption("G", hub, ConsumerKind(is_orderly=is_orderly))
    for topic in "TUVW":
        group.subscribe(topic, Filter())
    hub.does(group.begin())
    hub.passes(12)  # twice the time of a request: for the list of members, and for a lock
    assert len([queue for queue in group.held if queue.brokerName == "b"]) == 16
    assert not [queue for queue in group.held if queue.brokerName == "a"]


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
    for answer in (refusing(1), answering(b"[]")):
        hub.answers[LIST] = answer
        hub.passes(21)
        assert sorted(group.held) == QUEUES


def test_a_queue_whose_offset_is_not_known_is_taken_later() -> None:
    hub, _, group = made()
    ask = hub.answers[RequestCode.QUERY_CONSUMER_OFFSET]
    hub.answers[RequestCode.QUERY_CONSUMER_OFFSET] = refusing(1)
    hub.does(group.begin())
    hub.passes(1)
    assert not group.held
    hub.answers[RequestCode.QUERY_CONSUMER_OFFSET] = ask
    hub.passes(1)
    assert sorted(group.held) == QUEUES


def test_an_illegal_offset_goes_on_where_the_broker_says() -> None:
    hub, brokers, group = made()
    brokers.offsets[QUEUES[0]] = 99
    hub.does(group.begin())
    hub.passes(1)
    assert group.held[QUEUES[0]].next_offset == 0


def test_offsets_are_committed_every_five_seconds_when_they_have_changed() -> None:
    hub, brokers, group = begun()
    hub.passes(5)
    assert brokers.offsets == dict.fromkeys(QUEUES, 0)
    before = len(hub.requests(RequestCode.UPDATE_CONSUMER_OFFSET))
    hub.passes(10)
    assert len(hub.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == before
    arrive(hub, brokers, group, QUEUES[1], b"x", b"y")
    group.finished(taken(group, 8))
    hub.passes(5)
    assert brokers.offsets[QUEUES[1]] == 2


def test_a_commit_that_fails_is_tried_again() -> None:
    hub, brokers, _ = begun()
    commit = hub.answers[RequestCode.UPDATE_CONSUMER_OFFSET]
    hub.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = refusing(1)
    hub.passes(5)
    hub.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = commit
    hub.passes(5)
    assert len(brokers.offsets) == 4


def test_a_pull_that_fails_is_repeated_after_a_pause() -> None:
    hub, brokers, _ = begun()
    hub.answers[RequestCode.PULL_MESSAGE] = refusing(2)
    hub.loses("a:10911")
    hub.passes(0.1)
    asked = len(hub.requests(RequestCode.PULL_MESSAGE))
    hub.passes(2.5)
    assert len(hub.requests(RequestCode.PULL_MESSAGE)) == asked
    hub.passes(1)
    assert len(hub.requests(RequestCode.PULL_MESSAGE)) > asked
    assert brokers.pulls


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
    hub.does(group.begin())
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
    hub.does(group.begin())
    hub.passes(14)
    assert {queue.brokerName for queue in group.held} == {"b"}
    assert {held.locked_ns for held in group.held.values()} == {locked_at[0]}


def test_a_queue_is_given_back_when_its_message_is_done_and_committed() -> None:
    hub, brokers, group = begun(is_orderly=True)
    arrive(hub, brokers, group, QUEUES[3], b"x", b"y")
    unit = taken(group)
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
    told: list[list[MessageQueue]] = []
    group.on_queues_changed = told.append
    arrive(hub, brokers, group, QUEUES[0], b"x", b"y", b"z")
    group.finished(taken(group))
    brokers.others_locks = {QUEUES[0]}
    hub.passes(21)
    assert QUEUES[0] not in group.held
    assert group.take(1) is None
    brokers.others_locks.clear()
    brokers.offsets.clear()  # the broker was restarted, and has forgotten
    hub.passes(3)
    assert bodies(taken(group)) == [b"y"]
    assert told == [QUEUES[1:], QUEUES]


def test_what_was_done_before_a_queue_was_another_member_s_counts_no_more() -> None:
    hub, brokers, group = begun(is_orderly=True)
    queue = QUEUES[3]
    arrive(hub, brokers, group, queue, b"x", b"y")
    group.finished(taken(group))
    brokers.others_locks = {queue}
    hub.passes(21)
    members_change(hub, brokers, "zzz")
    hub.passes(21)
    brokers.offsets[queue] = 0  # the group was told to go back, and the other member did
    brokers.others_locks.clear()
    members_change(hub, brokers)
    hub.passes(3)
    assert bodies(taken(group)) == [b"x"]


def test_a_lost_broker_ends_its_locks() -> None:
    hub, brokers, group = begun(is_orderly=True)
    before = dict(group.held)
    brokers.locked.clear()
    hub.loses("a:10911")
    assert not group.held
    hub.passes(2)
    assert sorted(group.held) == QUEUES
    assert brokers.locked == set(QUEUES)
    assert all(group.held[queue] is not held for queue, held in before.items())


def test_leaving_commits_unlocks_and_tells_in_this_order() -> None:
    hub, brokers, group = begun(is_orderly=True)
    hub.log.clear()
    group.stop()
    hub.does(group.leave())
    assert not brokers.locked
    codes = list(dict.fromkeys(request.code for _, request in hub.log))
    assert codes == [
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.UNREGISTER_CLIENT,
    ]


def test_a_broker_that_is_not_to_hold_pulls_is_asked_now_and_then() -> None:
    hub = MemoryHub(broker_suspend_max_time=0)
    brokers = Brokers(hub, "T", queues=1)
    pull = hub.answers[RequestCode.PULL_MESSAGE]

    def once(address: str, request: Command) -> Command | None:
        brokers.answers_waiting_pulls = brokers.pulls >= 20  # else it would never end
        return pull(address, request)

    hub.answers[RequestCode.PULL_MESSAGE] = once
    group = Consumption("G", hub, ConsumerKind())
    group.subscribe("T", Filter())
    hub.does(group.begin())
    hub.passes(5)
    assert 3 <= brokers.pulls <= 10
    brokers.put(QUEUES[0], b"x")
    hub.passes(2)
    assert group.held[QUEUES[0]].count == 1


# --- locks, lists of members ----------------------------------------------------------------------


def test_what_others_have_is_not_granted() -> None:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    hub.does(hub.routes.of("T"))
    locks = Locks(hub, "G")
    brokers.others_locks = {QUEUES[1]}
    assert hub.does(locks.lock(QUEUES[:2])) == {QUEUES[0]}
    hub.does(locks.unlock(QUEUES[0]))
    assert brokers.locked == set()


def test_a_broker_that_does_not_say_is_no_refusal() -> None:
    hub = MemoryHub()
    Brokers(hub, "T")
    locks = Locks(hub, "G")
    assert hub.does(locks.lock(QUEUES)) is None  # no route yet
    hub.does(locks.unlock(QUEUES[0]))
    hub.does(hub.routes.of("T"))
    hub.answers[RequestCode.LOCK_BATCH_MQ] = answering(b"[]")
    assert hub.does(locks.lock(QUEUES)) is None
    hub.answers[RequestCode.UNLOCK_BATCH_MQ] = refusing(1)
    hub.does(locks.unlock(QUEUES[0]))


def listed() -> tuple[MemoryHub, Members]:
    hub = MemoryHub()
    hub.has_topic("T", brokers="ab")
    hub.does(hub.routes.of("T"))
    body = fastjson.dumps({"consumerIdList": ["me", "you"]})
    hub.answers[LIST] = answering(body)
    return hub, Members(hub, "G")


def test_the_first_broker_is_asked_and_the_next_when_it_does_not_tell() -> None:
    hub, members = listed()
    assert hub.does(members.of(["a", "b"])) == ["me", "you"]
    hub.down.add("a:10911")
    hub.loses("a:10911")
    assert hub.does(members.of(["a", "b"])) == ["me", "you"]
    asked = [address for address, request in hub.log if request.code == LIST]
    assert asked == ["a:10911", "b:10911"]


def test_nobody_tells() -> None:
    hub, members = listed()
    with pytest.raises(NotFound, match="members of G"):
        hub.does(members.of(["z"]))
    for body in (b"[]", b"{}", b"?"):
        hub.answers[LIST] = answering(body)
        with pytest.raises(BadAnswer, match="no list of members"):
            hub.does(members.of(["a"]))


# --- heartbeats -----------------------------------------------------------------------------------

BOTH = {"a:10911", "b:10911"}


def beating(consumes: bool = False) -> tuple[MemoryHub, Heartbeats]:
    hub = MemoryHub()
    hub.has_topic("T", brokers="ab")
    hub.known["T"]["brokerDatas"][0]["brokerAddrs"]["1"] = "a:2"
    hub.does(hub.routes.of("T"))
    groups: dict[str, Any] = {"consumerDataSet": [{}] if consumes else [], "producerDataSet": []}
    return hub, Heartbeats(hub, lambda: groups, "G")


@pytest.mark.parametrize(("consumes", "told"), [(False, BOTH), (True, {*BOTH, "a:2"})])
def test_masters_are_told_and_replicas_by_consumers(consumes: bool, told: set[str]) -> None:
    hub, beats = beating(consumes)
    hub.does(beats.beat())
    assert (len(beaten(hub)), set(beaten(hub))) == (len(told), told)
    assert fastjson.loads(hub.requests(BEAT)[0].body)["clientID"] == hub.client_id


def test_it_beats_for_ever() -> None:
    hub, beats = beating()
    hub.spawn(beats.watch(), "beats")
    hub.passes(91)
    assert len(beaten(hub)) == 6


def test_only_new_brokers_are_introduced_to() -> None:
    hub, beats = beating()
    hub.does(beats.introduce())
    hub.does(beats.introduce())
    assert len(beaten(hub)) == 2
    assert beats.reached == BOTH


def test_lost_brokers_are_told_again_soon_and_until_they_are_there() -> None:
    hub, beats = beating()
    hub.does(beats.beat())
    hub.down.add("a:10911")
    for address in BOTH:
        hub.loses(address)
    assert not beats.reached
    hub.passes(3)
    assert beats.reached == {"b:10911"}
    hub.down.clear()
    hub.passes(2)
    assert beats.reached == BOTH


def test_a_broker_that_comes_back_to_the_routes_is_introduced_to_at_once() -> None:
    hub, beats = beating()
    hub.does(beats.beat())
    hub.down.add("a:10911")
    hub.loses("a:10911")
    hub.passes(3)
    there = hub.known["T"]
    hub.has_topic("T", brokers="b")
    hub.does(hub.routes.ask("T"))
    hub.passes(60)
    hub.down.clear()
    hub.known["T"] = there
    hub.does(hub.routes.ask("T"))
    hub.does(beats.introduce())
    assert beats.reached == BOTH


def test_leaving_tells_those_that_knew() -> None:
    hub, beats = beating()
    hub.does(beats.beat())
    hub.does(beats.leave(consumerGroup="G"))
    (first, _) = hub.requests(RequestCode.UNREGISTER_CLIENT)
    assert first.ext == {"clientID": hub.client_id, "consumerGroup": "G"}
    assert not beats.reached


def test_nobody_waits_for_a_broker_that_failed_and_is_tried_again_anyhow() -> None:
    """Its machine may be off: a connection to it takes seconds to fail, each time."""
    hub, beats = beating()
    hub.answers[BEAT] = lambda address, request: request.answer() if address[0] == "b" else None
    hub.does(beats.introduce())
    assert beats.reached == {"b:10911"}
    again = Job(beats.introduce())
    hub.work()
    assert again.is_done
    hub.answers[BEAT] = answering()
    hub.passes(2)
    assert beats.reached == BOTH


# --- shares ---------------------------------------------------------------------------------------


def queues(count: int, broker: str = "a") -> list[MessageQueue]:
    return [MessageQueue(broker, number, "T") for number in range(count)]


@pytest.mark.parametrize("name", allocation.STRATEGIES)
@pytest.mark.parametrize("members", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_each_queue_is_owned_once(name: str, members: int, count: int) -> None:
    names = [f"m{number}" for number in range(members)]
    share, every = allocation.STRATEGIES[name], queues(count)
    owned = [
        queue
        for member in names
        for queue in allocation.share_of(share, member, every[::-1], names[::-1])
    ]
    assert sorted(owned) == sorted(every)


FIVE, ROOMS = queues(5), queues(5, "r1@a") + queues(2, "r2@b") + queues(2, "plain")


@pytest.mark.parametrize(
    ("strategy", "every", "first", "second"),
    [
        (allocation.averagely, FIVE, FIVE[:3], FIVE[3:]),
        (allocation.by_circle, FIVE, FIVE[::2], FIVE[1::2]),
        (allocation.by_config(FIVE[1], FIVE[3]), FIVE, [FIVE[1], FIVE[3]], [FIVE[1], FIVE[3]]),
        (allocation.by_machine_room("r1"), ROOMS, [*ROOMS[:2], ROOMS[4]], ROOMS[2:4]),
    ],
    ids=["blocks", "turns", "a fixed choice", "rooms in the names of brokers"],
)
def test_shares_as_java_has_them(
    strategy: allocation.Allocate, every: list[MessageQueue], first: object, second: object
) -> None:
    assert [strategy(member, every, ["x", "y"]) for member in ("x", "y")] == [first, second]


def test_few_queues_change_hands_by_hash() -> None:
    every = queues(64)
    before = set(allocation.consistently("a", every, ["a", "b", "c"]))
    after = set(allocation.consistently("a", every, ["a", "b"]))
    assert before <= after


def test_queues_of_a_room_for_the_members_in_it() -> None:
    every = queues(2, "r1-a") + queues(2, "r2-a") + queues(2, "r3-a")
    members = ["r1-x", "r2-x", "r2-y"]

    def room(name: str) -> str:
        return name.partition("-")[0]

    allocate = allocation.near_by(room, room)
    owned = {member: allocate(member, every, members) for member in members}
    assert {queue.brokerName for queue in owned["r1-x"]} == {"r1-a", "r3-a"}
    assert sorted(queue for found in owned.values() for queue in found) == sorted(every)


def test_a_member_that_the_broker_does_not_know_has_none() -> None:
    assert allocation.share_of(allocation.averagely, "me", queues(4), ["you"]) == []
    assert allocation.share_of(allocation.averagely, "me", [], ["me"]) == []
