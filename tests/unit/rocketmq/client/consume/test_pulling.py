"""Pulls, their offsets and filters, lite pull consumers, and messages as they are received."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.client import errors
from penstock.rocketmq.client.consume import offsets
from penstock.rocketmq.client.consume.filters import Filter, Subscription, filter_of, sql
from penstock.rocketmq.client.consume.held_queue import HeldQueue
from penstock.rocketmq.client.consume.lite_pull import LitePull
from penstock.rocketmq.client.consume.pulling import Pulled, Puller, PullStatus
from penstock.rocketmq.client.consume.received import Received, all_received, unwrapped
from penstock.rocketmq.client.network.jobs import Job, Promise
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import batch_body
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag, encode
from tests.unit.rocketmq.client.brokers import Brokers
from tests.unit.rocketmq.client.memory_hub import MemoryHub, refusing
from tools.harness.rocketmq.records import received, stored

QUEUES = [MessageQueue("a", number, "T") for number in range(3)]
QUEUE, RETRY = QUEUES[0], MessageQueue("a", 0, "%RETRY%G")


def puller_of() -> tuple[MemoryHub, Brokers, Puller]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    brokers.answers_waiting_pulls = False
    return hub, brokers, Puller(hub, "G")


def pull(hub: MemoryHub, puller: Puller, offset: int = 0, **more: object) -> Pulled:
    wanted = filter_of("a")
    asked = puller.pull(QUEUE, offset, wanted, most=8, timeout_s=5.0, **more)  # type: ignore[arg-type]
    found: Pulled = hub.does(asked)
    return found


def test_what_was_found_is_chosen_by_tags() -> None:
    hub, brokers, puller = puller_of()
    brokers.put(QUEUE, b"x", TAGS="a")
    brokers.put(QUEUE, b"y", TAGS="b")
    found = pull(hub, puller)
    assert [each.body for each in found.messages] == [b"x"]
    assert (found.status, found.next_offset, found.max_offset) == (PullStatus.FOUND, 2, 2)
    assert pull(hub, puller, 2).status is PullStatus.NO_NEW_MSG
    assert pull(hub, puller, 9) == Pulled(PullStatus.OFFSET_ILLEGAL, [], 2, 0, 2)


def test_a_request_says_what_it_wants() -> None:
    hub, _, puller = puller_of()
    pull(hub, puller, commit=3, suspend_s=15.0)
    (request,) = hub.requests(RequestCode.PULL_MESSAGE)
    assert (request.text("sysFlag"), request.text("commitOffset")) == ("7", "3")
    assert (request.text("subscription"), request.text("suspendTimeoutMillis")) == ("a", "15000")


def test_a_broker_may_send_it_to_a_replica() -> None:
    hub, _, puller = puller_of()
    hub.known["T"]["brokerDatas"][0]["brokerAddrs"]["1"] = "a:2"
    answer = hub.answers[RequestCode.PULL_MESSAGE]

    def serve(address: str, request: Command) -> Command:
        found = answer(address, request)
        assert found is not None
        assert found.ext is not None
        found.ext["suggestWhichBrokerId"] = "1"
        return found

    hub.answers[RequestCode.PULL_MESSAGE] = serve
    pull(hub, puller)
    pull(hub, puller, commit=3)
    hub.down.add("a:2")
    hub.loses("a:2")
    with pytest.raises(errors.NotConnected, match="a:2"):
        pull(hub, puller)
    pull(hub, puller)
    asked = [(a, r.text("sysFlag")) for a, r in hub.log if r.code == RequestCode.PULL_MESSAGE]
    assert asked == [("a:10911", "4"), ("a:2", "4"), ("a:10911", "4")]  # replicas keep no offsets


def test_refusals_and_nonsense() -> None:
    hub, _, puller = puller_of()
    hub.answers[RequestCode.PULL_MESSAGE] = refusing(17, "gone")
    with pytest.raises(errors.TopicNotExist, match="group G, topic T"):
        pull(hub, puller)
    hub.answers[RequestCode.PULL_MESSAGE] = refusing(0)
    with pytest.raises(errors.BadAnswer, match="nextBeginOffset"):
        pull(hub, puller)
    elsewhere = QUEUE._replace(brokerName="z")
    with pytest.raises(errors.NotConnected, match="not exist; mqadmin clusterList"):
        hub.does(puller.pull(elsewhere, 0, filter_of("*"), most=1, timeout_s=1.0))


# --- filters --------------------------------------------------------------------------------------


def test_tags_are_compared_as_texts() -> None:
    messages = [received(TAGS="a"), received(TAGS="b"), received()]
    assert filter_of("a || c").chosen(messages) == messages[:1]
    for everything in (filter_of("*"), filter_of(""), sql("a > 5")):
        assert everything.chosen(messages) == messages
    with pytest.raises(errors.BadFilter):
        Filter(" || ")


def test_a_subscription_as_heartbeats_have_it() -> None:
    found = Subscription("T", filter_of("TagA||TagB"), 7).as_json()
    assert found["codeSet"] == [2598919, 2598920]
    assert (found["tagsSet"], found["subVersion"]) == (["TagA", "TagB"], 7)
    assert Subscription("T", sql("a > 5"), 7).as_json()["expressionType"] == "SQL92"


# --- offsets --------------------------------------------------------------------------------------


def filled(**options: object) -> tuple[MemoryHub, Brokers]:
    hub = MemoryHub(**options)
    brokers = Brokers(hub, "T")
    brokers.put(QUEUE, b"x", b"y", b"z")
    return hub, brokers


@pytest.mark.parametrize(
    ("where", "offset"),
    [("FIRST_OFFSET", 0), ("LAST_OFFSET", 3), ("TIMESTAMP", 1)],
)
def test_a_new_group_begins_where_it_is_told(where: str, offset: int) -> None:
    hub, brokers = filled(consume_from_where=f"CONSUME_FROM_{where}")
    start = offsets.Start(hub, offsets.BrokerOffsets(hub, "G"))
    assert hub.does(start.of(QUEUE)) == offset
    assert hub.does(start.of(RETRY)) == 0
    brokers.offsets[QUEUE] = 2
    assert hub.does(start.of(QUEUE)) == 2


@pytest.mark.parametrize(("given", "asked"), [(0.0, 1_700_000_000 - 1800), (5.0, 5)])
def test_a_time_is_half_an_hour_ago_unless_it_is_given(given: float, asked: int) -> None:
    hub, _ = filled(consume_from_where="CONSUME_FROM_TIMESTAMP", consume_timestamp=given)
    hub.does(offsets.Start(hub, offsets.BrokerOffsets(hub, "G")).of(QUEUE))
    (request,) = hub.requests(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    assert request.int64("timestamp") == asked * 1000


def test_brokers_keep_offsets() -> None:
    hub, brokers = filled()
    kept = offsets.BrokerOffsets(hub, "G")
    assert hub.does(kept.read(QUEUE)) is None
    hub.does(kept.write({QUEUE: 2}))
    assert brokers.offsets == {QUEUE: 2}
    assert hub.does(kept.read(QUEUE)) == 2
    hub.answers[RequestCode.QUERY_CONSUMER_OFFSET] = refusing(1)
    with pytest.raises(errors.BrokerError, match="group G"):
        hub.does(kept.read(QUEUE))


def test_bounds_of_a_queue() -> None:
    hub, _ = filled()
    bounds = offsets.QueueBounds(hub)
    asked = (bounds.first(QUEUE), bounds.end(QUEUE), bounds.at(QUEUE, 5.0))
    assert [hub.does(each) for each in asked] == [0, 3, 1]
    with pytest.raises(errors.NotConnected, match="not exist"):
        hub.does(offsets.server_of(hub, QUEUE._replace(brokerName="z")))


def test_a_broadcast_consumer_keeps_them_in_a_file(tmp_path: Path) -> None:
    hub, _ = filled(offset_store_path=str(tmp_path))
    kept = offsets.LocalOffsets(hub, "G")
    assert hub.does(kept.read(QUEUE)) is None
    hub.does(kept.write({QUEUE: 2}))
    hub.does(kept.write({RETRY: 5}))
    again = offsets.LocalOffsets(hub, "G")
    assert hub.does(again.read(QUEUE)) == 2
    assert again.path == tmp_path / "10.0.0.1@DEFAULT" / "G" / "offsets.json"
    assert list(again.path.parent.iterdir()) == [again.path]


def test_a_user_without_a_home_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home")))
    hub, _ = filled()
    with pytest.raises(ConfigError, match="set offset_store_path"):
        offsets.LocalOffsets(hub, "G")


@pytest.mark.parametrize("text", ["", "[]", '{"offsetTable":{"x":1}}', '{"offsetTable":5}'])
def test_a_damaged_file_is_told_and_begins_again(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    hub, _ = filled(offset_store_path=str(tmp_path))
    kept = offsets.LocalOffsets(hub, "G")
    kept.path.parent.mkdir(parents=True)
    kept.path.write_text(text)
    assert hub.does(kept.read(QUEUE)) is None
    assert "readLocalOffset" in caplog.text


class Store:
    """Offsets that may not be writable."""

    def __init__(self) -> None:
        self.written: list[dict[MessageQueue, int]] = []
        self.fails = False
        self.answers: list[Promise[None]] = []

    async def read(self, queue: MessageQueue) -> int | None:
        return None

    async def write(self, offsets: dict[MessageQueue, int]) -> None:
        if self.fails:
            raise errors.NotConnected("a:1", "gone")
        self.written.append(offsets)
        if self.answers:
            await self.answers.pop()


def test_only_what_has_changed_is_written_and_what_failed_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, store = MemoryHub(), Store()
    commits = offsets.Commits(hub, "G", store)
    first, second = (HeldQueue(queue, 5) for queue in QUEUES[:2])
    hub.does(commits.write([first, second]))
    hub.does(commits.write([first, second]))
    second.next_offset = 7
    store.fails = True
    hub.does(commits.write([first, second]))
    assert "[G] updateConsumeOffsetToBroker exception: a:1: gone" in caplog.text
    store.fails = False
    hub.does(commits.write([first, second]))
    assert store.written == [{QUEUES[0]: 5}, {QUEUES[1]: 5}, {QUEUES[1]: 7}]


def test_the_first_commit_of_a_topic_is_alone() -> None:
    """Java's broker may lose one of two that make the group's table."""
    hub, store = MemoryHub(), Store()
    commits, answer = offsets.Commits(hub, "G", store), Promise[None]()
    store.answers.append(answer)
    job = Job(commits.write([HeldQueue(queue, 5) for queue in QUEUES]))
    assert store.written == [{QUEUES[0]: 5}]
    answer.keep(None)
    hub.does(job)
    assert store.written == [{queue: 5} for queue in QUEUES]
    store.answers.append(Promise[None]())
    Job(commits.write([HeldQueue(queue, 6) for queue in QUEUES]))
    assert store.written[3:] == [{queue: 6} for queue in QUEUES]


# --- lite pull consumers --------------------------------------------------------------------------
# What they do on real servers is in tests/programs/rocketmq/client/test_lite_pull_consumer.py.


def made(*, auto_commit: bool = True) -> tuple[MemoryHub, Brokers, LitePull]:
    hub = MemoryHub()
    brokers = Brokers(hub, "T")
    brokers.offsets = dict.fromkeys(QUEUES[:2], 0)
    brokers.put(QUEUE, b"1", b"2", b"3")
    core = LitePull("G", hub, auto_commit=auto_commit)
    hub.does(core.assign(QUEUES[:2]))
    hub.does(core.begin())
    hub.passes(1)
    return hub, brokers, core


def begun(core: LitePull) -> Iterator[Received]:
    """The messages of a loop."""
    assert core.begin_loop(32)
    return core.each()


def test_without_auto_commit_a_program_may_take_its_time() -> None:
    hub, brokers, core = made(auto_commit=False)
    core.poll(2)
    core.poll(2)
    hub.passes(2 * hub.config.consume_timeout)
    assert (brokers.sent_back, brokers.offsets[QUEUE]) == ([], 0)
    hub.does(core.commit_polled())
    assert brokers.offsets[QUEUE] == 3


@pytest.mark.parametrize("auto_commit", [True, False])
def test_what_a_loop_was_not_given_is_for_others(auto_commit: bool) -> None:
    hub, brokers, core = made(auto_commit=auto_commit)
    loop = begun(core)
    assert next(loop).body == b"1"
    assert [each.body for each in core.poll(1)] == [b"2"]
    assert next(loop, None) is None, "the poll has ended it"
    assert next(begun(core)).body == b"3"
    hub.does(core.commit_polled())
    assert brokers.offsets[QUEUE] == 3


@pytest.mark.parametrize(
    ("auto_commit", "given_up", "done"),
    [(True, True, 1), (True, False, 2), (False, True, 0), (False, False, 0)],
)
def test_the_end_of_a_loop(auto_commit: bool, given_up: bool, done: int) -> None:
    """With an exception the last message is not done, else it is."""
    hub, brokers, core = made(auto_commit=auto_commit)
    loop = begun(core)
    next(loop), next(loop)
    if given_up:
        core.give_up_polled()
    core.stop()
    hub.does(core.leave())
    assert brokers.offsets[QUEUE] == done
    assert core.working == (0 if given_up or auto_commit else 1)


def test_seeking_in_a_loop() -> None:
    hub, _, core = made()
    loop = begun(core)
    next(loop), next(loop)
    core.seek_to(QUEUE, 0)
    assert next(loop, None) is None
    hub.passes(0.1)
    assert [each.body for each in begun(core)] == [b"1", b"2", b"3"]


def test_a_queue_that_a_loop_is_at_is_taken_away() -> None:
    hub, brokers, core = made()
    loop = begun(core)
    next(loop), next(loop)
    hub.does(core.assign(QUEUES[1:2]))
    assert next(loop, None) is None
    assert brokers.offsets[QUEUE] == 1
    assert not core.begin_loop(32)


# --- messages as they are received ----------------------------------------------------------------

BATCH = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


def test_what_is_known_of_it() -> None:
    message = received(queue=3, offset=7, UNIQ_KEY="ID", TAGS="a", KEYS="k l", who="me")
    assert (message.id, message.tags, message.keys) == ("ID", "a", ["k", "l"])
    assert message.queue == MessageQueue("a", 3, "T")
    assert (message.queue_offset, message.born_at, message.stored_at) == (7, 5.0, 6.0)
    assert (message.born_host, message.store_host) == ("127.0.0.1:10911",) * 2
    assert message.properties["who"] == "me"
    assert (message.flag, message.transaction_id) == (0, "ID")
    assert "ID" in repr(message)
    assert received().id == received().offset_id, "without one of its producer"
    assert (received().tags, received().keys) == ("", [])


def test_one_that_comes_again_has_the_topic_that_it_was_sent_to() -> None:
    again = received(topic="%RETRY%ns%G", RETRY_TOPIC="ns%T")
    assert again.topic == "ns%T"
    assert Received(again.stored, "a", "ns").topic == "T"
    assert again.queue.topic == "%RETRY%ns%G"


def test_a_compressed_body_is_unpacked() -> None:
    packed = replace(stored(body=zlib.compress(b"tea")), sys_flag=0x1)
    assert Received(packed).body == b"tea"


def test_an_answer_has_several_or_makes_no_sense() -> None:
    body = encode(stored(offset=1)) + encode(stored(offset=2))
    assert [each.queue_offset for each in all_received(body, "a")] == [1, 2]
    with pytest.raises(errors.BadAnswer, match="broker a"):
        all_received(body[:-1], "a")
    with pytest.raises(errors.BadAnswer, match="broker a: a batch that is cut short"):
        all_received(encode(replace(stored(body=b"x"), sys_flag=BATCH)), "a")


def batch(offset: int, *bodies: bytes) -> StoredMessage:
    text = batch_body.encode(BatchedMessage(each, f"TAGS\1{each.decode()}\2", 7) for each in bodies)
    return replace(stored(body=text, queue=3, offset=offset, INNER_NUM="3"), sys_flag=BATCH)


def test_its_messages_have_offsets_properties_and_bodies_of_their_own() -> None:
    alone = stored(offset=8)
    found = list(unwrapped([alone, batch(9, b"a", b"b")], 0))
    assert found[0] is alone
    assert [(each.queue_offset, each.body, each.properties) for each in found[1:]] == [
        (9, b"a", "TAGS\1a\2"), (10, b"b", "TAGS\1b\2"),
    ]  # fmt: skip
    assert {(each.flag, each.sys_flag, each.queue) for each in found[1:]} == {(7, 0, 3)}


def test_a_pull_from_the_middle_gives_what_it_has_asked_for() -> None:
    body = encode(batch(9, b"a", b"b", b"c"))
    found = all_received(body, "a", first=10)
    assert [(each.queue_offset, each.tags) for each in found] == [(10, "b"), (11, "c")]


def test_a_compressed_batch_is_unpacked_once() -> None:
    packed = batch(0, b"a", b"b")
    packed.body = zlib.compress(packed.body)
    packed.sys_flag |= SysFlag.COMPRESSED
    assert [each.body for each in all_received(encode(packed), "a")] == [b"a", b"b"]
