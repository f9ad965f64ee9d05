"""The cases of `rocketmq_cases.py` that no other test shows, against real daemons.

Named after the number of their case; in front the check that every case is shown.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pytest

from penstock.rocketmq.broker.store.key_index import CATCH_UP_S
from penstock.rocketmq.protocol import fastjson, frames
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import ONE_WAY, Command
from penstock.rocketmq.protocol.ids import OffsetId, java_hash
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all
from penstock.testing.daemons import MqBroker, MqNamesrv, run_mqbroker, run_mqnamesrv
from tools.harness.rocketmq.raw_client import RawClient
from tools.pages.references import missing

from .rocketmq_cases import CASES, UNIT_TESTS, Case, is_optional
from .rocketmq_consumer import (
    QUEUES,
    Consumer,
    Queue,
    drain,
    fill,
    make_topic,
    run,
    send,
    send_fields,
)

Join: TypeAlias = Callable[..., Consumer]
PREPARED, COMMIT, ROLLBACK, UNKNOWN = 4, 8, 12, 0
DELAYS_MS = (1000, 600_000, 3000, 600_000)
ALWAYS = (1 << 63) - 1
SEARCHES_MAX = 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number:02}")
def test_a_case_is_shown(case: Case) -> None:
    """By one test at least that needs nothing that has to be installed first."""
    assert missing(case.tests) == []
    assert not all(map(is_optional, case.tests))


@pytest.mark.parametrize("name", UNIT_TESTS)
def test_a_unit_test_has_its_counterpart(name: str) -> None:
    assert UNIT_TESTS[name]
    assert missing(UNIT_TESTS[name]) == []


def test_every_case_stands_once() -> None:
    assert [case.number for case in CASES] == list(range(1, 35))


@pytest.fixture(scope="module")
def name_server() -> Iterator[MqNamesrv]:
    with run_mqnamesrv() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def broker(name_server: MqNamesrv) -> Iterator[MqBroker]:
    with run_mqbroker(
        name_server=name_server.rocketmq, enablePropertyFilter="true",
        messageDelayLevel=" ".join(f"{ms // 1000}s" for ms in DELAYS_MS),
        transactionTimeOut=50, transactionCheckInterval=100,
        transactionCheckMax=10_000,
    ) as daemon:  # fmt: skip
        yield daemon


@pytest.fixture
def client(broker: MqBroker) -> Iterator[RawClient]:
    client = RawClient(broker.port)
    yield client
    client.close()


@pytest.fixture
def join(broker: MqBroker, client: RawClient) -> Iterator[Join]:
    """Starts a consumer of topics, of a group that is named after the first of them."""
    joined = []

    def join(client_id: str, topics: dict[str, str], group: str = "", **options: Any) -> Consumer:
        for topic in topics:
            make_topic(client, topic)
        group = group or f"{next(iter(topics))}-group"
        joined.append(Consumer(broker.port, group, client_id, topics, **options))
        return joined[-1]

    yield join
    for consumer in joined:
        consumer.crash()


def join_all(join: Join, count: int, topic: str, **options: Any) -> list[Consumer]:
    """So many members of a group, once all of them have their share of the queues."""
    members = [join(f"member-{number}", {topic: "*"}, **options) for number in range(count)]
    has_its_own(*members)
    return members


def has_its_own(*members: Consumer) -> None:
    """Waits until each of them has its share, and all queues have one member."""
    even = QUEUES // len(members)

    def is_even() -> bool:
        queues = {queue for member in members for queue in member.queues}
        return len(queues) == QUEUES and all(len(member.queues) == even for member in members)

    run(is_even, *members)


def progress(client: RawClient, topic: str, group: str) -> dict[int, tuple[int, int]]:
    """queue -> offset of the group, end of the queue."""
    answer = client.ask(Code.GET_CONSUME_STATS, consumerGroup=group, topic=topic)
    table = fastjson.loads(answer.body)["offsetTable"]
    return {
        dict(queue)["queueId"]: (each["consumerOffset"], each["brokerOffset"])
        for queue, each in table.items()
    }


def lag(client: RawClient, topic: str, group: str) -> int:
    return sum(end - offset for offset, end in progress(client, topic, group).values())


def offsets(messages: Iterable[StoredMessage]) -> dict[int, list[int]]:
    """queue -> offsets of its messages, in the order in which they were consumed."""
    found = defaultdict(list)
    for message in messages:
        found[message.queue].append(message.queue_offset)
    return dict(found)


def each_queue(count: int) -> dict[int, list[int]]:
    """What `offsets` gives when so many messages of each queue came in order, and once."""
    return {queue: list(range(count)) for queue in range(QUEUES)}


def query(client: RawClient, topic: str, key: str, count: int, **more: Any) -> list[StoredMessage]:
    for _ in range(SEARCHES_MAX):
        begun = time.monotonic()
        answer = client.ask(Code.QUERY_MESSAGE, topic=topic, key=key, maxNum=count,
                            beginTimestamp=0, endTimestamp=ALWAYS, **more)  # fmt: skip
        if time.monotonic() - begun < CATCH_UP_S:
            break  # no search ends so soon with only a part of what there is
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    return list(decode_all(answer.body))


def view(client: RawClient, offset_id: str) -> StoredMessage:
    answer = client.ask(Code.VIEW_MESSAGE_BY_ID, offset=OffsetId.parse(offset_id).offset)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return next(decode_all(answer.body))


# --- sending and consuming -----------------------------------------------------------------------


def test_01_all_is_received_once_and_offsets_tell_so(client: RawClient, join: Join) -> None:
    consumer = join("a", {"C01": "*"})
    sent = fill(client, "C01", "m", 20)
    drain(consumer)
    assert sorted(consumer.bodies) == sorted(sent)
    assert progress(client, "C01", consumer.group) == dict.fromkeys(range(QUEUES), (20, 20))


@pytest.mark.parametrize("queues", [[0, 1, 2, 3], [2], [3, 1, 1, 0, 3, 1, 2, 3]])
def test_02_each_queue_keeps_its_order(queues: list[int], client: RawClient, join: Join) -> None:
    topic = f"C02-{len(queues)}"
    consumer = join("a", {topic: "*"}, is_orderly=True)
    sent = defaultdict(list)
    for number in range(80):
        queue = queues[number % len(queues)]
        sent[queue].append(b"%d" % number)
        send(client, topic, b"%d" % number, queue)
    drain(consumer)
    got = defaultdict(list)
    for message in consumer.got:
        got[message.queue].append(message.body)
    assert got == sent


@pytest.mark.parametrize("count", [2, 4])
def test_03_orderly_consumers_share_evenly_and_keep_the_order(
    count: int, client: RawClient, join: Join
) -> None:
    topic = f"C03-{count}"
    members = join_all(join, count, topic, is_orderly=True)
    fill(client, topic, "m", 12)
    drain(*members)
    assert {len(member.got) for member in members} == {12 * QUEUES // count}
    found: dict[int, list[int]] = {}
    for member in members:
        found.update(offsets(member.got))
    assert found == each_queue(12)


def test_04_the_order_survives_members_that_join_and_leave(client: RawClient, join: Join) -> None:
    got: list[StoredMessage] = []
    topic, options = {"C04": "*"}, {"is_orderly": True, "got": got}
    one = join("one", topic, **options)
    fill(client, "C04", "m", 40)  # more than one turn gives
    one.turn()
    two = join("two", topic, **options)
    two.turn()
    assert two.queues == [], "the locks are still the other one's"
    has_its_own(one, two)
    fill(client, "C04", "n", 10)
    two.turn()
    three = join("three", topic, **options)
    one.leave()
    has_its_own(two, three)
    fill(client, "C04", "o", 10)
    drain(two, three)
    assert offsets(got) == each_queue(60)


def test_05_order_and_tags(client: RawClient, join: Join) -> None:
    consumer = join("a", {"C05": "A"}, is_orderly=True)
    for tag in "ABAAB":
        fill(client, "C05", tag, 8, TAGS=tag)
    drain(consumer)
    expected = [*range(8), *range(16, 32)]
    assert offsets(consumer.got) == dict.fromkeys(range(QUEUES), expected)


def test_15_a_send_need_not_wait_for_the_last_one(client: RawClient) -> None:
    begun = []
    for number in range(40):
        fields = send_fields("C15", number % QUEUES)
        begun.append(client.begin(Code.SEND_MESSAGE_V2, b"%d" % number, **fields))
    refused = client.begin(Code.SEND_MESSAGE_V2, b"x", **send_fields("no good", 0))
    answers = {answer.opaque: answer for answer in (client.next_command() for _ in range(41))}
    assert answers.pop(refused.opaque).code == ResponseCode.SYSTEM_ERROR
    for number, request in enumerate(begun):
        answer = answers[request.opaque]
        place = (answer.code, answer.int32("queueId"), answer.int64("queueOffset"))
        assert place == (ResponseCode.SUCCESS, number % QUEUES, number // QUEUES)


def test_16_one_way_messages_go_to_the_chosen_queue(client: RawClient, join: Join) -> None:
    consumer = join("a", {"C16": "*"})
    for number in range(40):
        fields = send_fields("C16", number % QUEUES)
        request = client.request(Code.SEND_MESSAGE_V2, b"%d" % number, flag_=ONE_WAY, **fields)
        client.send(frames.encode(request))
    run(lambda: len(consumer.got) == 40, consumer)
    assert all(int(message.body) % QUEUES == message.queue for message in consumer.got)
    assert offsets(consumer.got) == each_queue(10)
    assert client.ask(Code.GET_MAX_OFFSET, topic="C16", queueId=0).int64("offset") == 10
    assert client.requests == [], "none of them was answered"


def end_transaction(client: RawClient, places: dict[str, Any], outcome: int, key: str) -> None:
    """Say how it ended, as Java does: without an answer."""
    client.tell(Code.END_TRANSACTION, producerGroup="PG06", commitOrRollback=outcome, msgId=key,
                **places)  # fmt: skip


def test_06_of_many_transactions_the_committed_ones_arrive(client: RawClient, join: Join) -> None:
    outcomes = {
        b"commit": [COMMIT], b"rollback": [ROLLBACK],
        b"unknown-commit": [UNKNOWN, COMMIT], b"unknown-rollback": [UNKNOWN, ROLLBACK],
        b"unknown-unknown-commit": [UNKNOWN, UNKNOWN, COMMIT],
    }  # fmt: skip
    heartbeat = {"clientID": "producer-06", "producerDataSet": [{"groupName": "PG06"}]}
    client.ask(Code.HEART_BEAT, fastjson.dumps(heartbeat))
    verdicts: dict[str, list[int]] = {}
    committed = []
    for number in range(120):
        kind = list(outcomes)[number % len(outcomes)]
        key = f"{number:032X}"
        verdicts[key] = outcomes[kind].copy()
        if COMMIT in verdicts[key]:
            committed.append(b"%d %s" % (number, kind))
        sent = send(client, "C06", b"%d %s" % (number, kind), sys_flag=PREPARED, TRAN_MSG="true",
                    PGROUP="PG06", UNIQ_KEY=key)  # fmt: skip
        places = {
            "tranStateTableOffset": sent["queueOffset"],
            "commitLogOffset": str(OffsetId.parse(sent["msgId"]).offset),
        }
        end_transaction(client, places, verdicts[key].pop(0), key)
    open_ones = {key for key, left in verdicts.items() if left}
    assert len(open_ones) == 72
    while open_ones:
        check = client.asked(Code.CHECK_TRANSACTION_STATE)
        key = check.text("transactionId")
        places = {name: check.text(name) for name in ("tranStateTableOffset", "commitLogOffset")}
        left = verdicts[key] or [ROLLBACK]  # too late: it has ended
        end_transaction(client, {**places, "fromTransactionCheck": "true"}, left.pop(0), key)
        if not left:
            open_ones.discard(key)
    consumer = join("a", {"C06": "*"})
    run(lambda: len(consumer.got) >= len(committed), consumer)
    drain(consumer)
    assert sorted(consumer.bodies) == sorted(committed)


# --- batches, ids, keys and properties -----------------------------------------------------------


def test_07_a_batch_gives_each_message_its_ids(client: RawClient) -> None:
    batch = [BatchedMessage(b"%d" % n, properties.join({"UNIQ_KEY": f"{n:032X}"}))
             for n in range(100)]  # fmt: skip
    fields = {**send_fields("C07", 1), "m": "true"}
    answer = client.ask(Code.SEND_BATCH_MESSAGE, batch_body.encode(batch), **fields)
    assert answer.code == ResponseCode.SUCCESS
    ids = answer.text("msgId").split(",")
    assert len(set(ids)) == 100
    for number, offset_id in enumerate(ids):
        by_id = view(client, offset_id)
        (by_key,) = query(client, "C07", f"{number:032X}", 32, _UNIQUE_KEY_QUERY="true")
        assert by_id == by_key
        assert (by_id.body, by_id.queue, by_id.queue_offset) == (b"%d" % number, 1, number)


def test_10_queries_by_key(client: RawClient) -> None:
    sent = fill(client, "C10", "m", 5, KEYS="few and")
    assert sorted(message.body for message in query(client, "C10", "few", 20)) == sorted(sent)
    fill(client, "C10", "m", 125, KEYS="many")
    assert len(query(client, "C10", "many", 500)) == 64


def test_10_neither_topics_nor_keys_of_one_hash_are_mixed_up(client: RawClient) -> None:
    for one, other in (("Aa", "BB"), ("AaTopic#Aa", "BBTopic#BB"), ("AaAaTopic", "BBBBTopic")):
        assert java_hash(one) == java_hash(other)
    for topic, key in (("AaTopic", "Aa"), ("BBTopic", "BB"), ("AaAaTopic", "Aa"),
                       ("BBBBTopic", "Aa")):  # fmt: skip
        send(client, topic, topic.encode(), KEYS=key)
    assert query(client, "AaTopic", "BB", 10) == []
    assert query(client, "BBTopic", "Aa", 10) == []
    for topic in ("AaAaTopic", "BBBBTopic"):
        assert [message.body for message in query(client, topic, "Aa", 10)] == [topic.encode()]


def test_12_and_13_properties_of_users(client: RawClient, join: Join) -> None:
    consumer = join("a", {"C12": "*"})
    mine: dict[str, Any] = {
        "city": "杭州", "path": "a=b;c:d\\\"'", "words": " several  words ", "n": "1.5e3",
        "long": "中" * 10 * 1024,
    }  # fmt: skip
    send(client, "C12", b"x", **mine)
    too_long = send_fields("C12", 0, key="中" * (32 * 1024 + 1))
    answer = client.ask(Code.SEND_MESSAGE_V2, b"x", **too_long)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark
    drain(consumer)
    (message,) = consumer.got
    assert properties.parse(message.properties).items() >= mine.items()


def test_14_producers_of_a_group_are_told_apart_by_their_names(
    broker: MqBroker, client: RawClient
) -> None:
    """That one process has no name twice is for clients to see to."""

    def producers() -> list[str]:
        answer = client.ask(Code.GET_PRODUCER_CONNECTION_LIST, producerGroup="PG14")
        connections = fastjson.loads(answer.body)["connectionSet"]
        return sorted(each["clientId"] for each in connections)

    others = [RawClient(broker.port) for _ in range(2)]
    for name, other in zip(("one", "two"), others, strict=True):
        heartbeat = {"clientID": name, "producerDataSet": [{"groupName": "PG14"}]}
        assert other.ask(Code.HEART_BEAT, fastjson.dumps(heartbeat)).code == ResponseCode.SUCCESS
    assert producers() == ["one", "two"]
    others[0].ask(Code.UNREGISTER_CLIENT, clientID="one", producerGroup="PG14")
    assert producers() == ["two"]
    for other in others:
        other.close()


# --- delays --------------------------------------------------------------------------------------


def test_17_delayed_messages_come_neither_early_nor_a_level_late(
    client: RawClient, join: Join
) -> None:
    levels = (1, 3)  # far from the next one each, which a busy machine is not to reach
    for level in levels:
        fill(client, "C17", f"{level}", 3, DELAY=str(level))
    consumer = join("a", {"C17": "*"})
    run(lambda: len(consumer.got) == len(levels) * 3 * QUEUES, consumer)
    for message in consumer.got:
        level = int(message.body.split(b"-")[0])
        waited_ms = message.store_ms - message.born_ms
        assert DELAYS_MS[level - 1] <= waited_ms < DELAYS_MS[level], message
    assert len(set(consumer.bodies)) == len(consumer.got)


# --- broadcasting --------------------------------------------------------------------------------


def test_18_to_20_who_broadcasts_gets_everything_whatever_the_others_do(
    client: RawClient, join: Join
) -> None:
    one, two, stuck = (join(name, {"C18": "*"}, own={}) for name in ("one", "two", "stuck"))
    drain(one, two, stuck)
    assert all(len(member.queues) == QUEUES for member in (one, two, stuck))
    sent = fill(client, "C18", "m", 10)
    drain(one, two)
    assert sorted(one.bodies) == sorted(two.bodies) == sorted(sent)
    one.crash()
    sent += fill(client, "C18", "n", 10)
    drain(two)
    assert sorted(two.bodies) == sorted(sent)
    assert stuck.got == []
    drain(stuck)
    assert sorted(stuck.bodies) == sorted(sent)
    assert progress(client, "C18", two.group) == dict.fromkeys(range(QUEUES), (0, 20))


def test_21_who_joins_a_broadcast_late_gets_what_is_new(client: RawClient, join: Join) -> None:
    kept: dict[Queue, int] = {}
    one = join("one", {"C21": "*"}, own=kept)
    drain(one)
    old = fill(client, "C21", "old", 5)
    drain(one)
    late = join("late", {"C21": "*"}, own={})
    drain(late)
    new = fill(client, "C21", "new", 5)
    drain(one, late)
    assert sorted(late.bodies) == sorted(new)
    assert sorted(one.bodies) == sorted(old + new)
    one.leave()
    again = join("one", {"C21": "*"}, own=kept)
    drain(again)
    assert again.got == []


def test_22_the_order_of_a_queue_is_the_same_for_all(client: RawClient, join: Join) -> None:
    members = [join(name, {"C22": "*"}, own={}) for name in ("one", "two")]
    drain(*members)
    fill(client, "C22", "m", 40)
    drain(*members)
    assert [offsets(member.got) for member in members] == [each_queue(40)] * 2


def test_23_tags_in_a_broadcast(client: RawClient, join: Join) -> None:
    wanted = {"one": "A", "two": "A", "three": "B", "all": "*"}
    groups = {"one": "C23-A", "two": "C23-A", "three": "C23-B", "all": "C23-all"}
    members = {name: join(name, {"C23": tags}, groups[name], own={})
               for name, tags in wanted.items()}  # fmt: skip
    drain(*members.values())
    sent = {tag: fill(client, "C23", tag, 5, TAGS=tag) for tag in "ABC"}
    drain(*members.values())
    assert sorted(members["one"].bodies) == sorted(members["two"].bodies) == sorted(sent["A"])
    assert sorted(members["three"].bodies) == sorted(sent["B"])
    assert len(members["all"].got) == 3 * 5 * QUEUES


# --- members that join and crash -----------------------------------------------------------------


def test_24_nothing_is_lost_while_members_join_and_crash(client: RawClient, join: Join) -> None:
    topic = {"C24": "*"}
    one = join("one", topic)
    sent = fill(client, "C24", "first", 10)
    one.turn()
    two, three = join("two", topic), join("three", topic)
    sent += fill(client, "C24", "second", 10)
    run(lambda: len(three.queues) > 0, one, two, three)
    one.commits = False  # from here on it consumes what it never says
    told = len(one.got)
    sent += fill(client, "C24", "third", 10)
    one.turn()
    one.crash()
    sent += fill(client, "C24", "fourth", 10)
    has_its_own(two, three)
    four = join("four", topic)
    two.crash()
    has_its_own(three, four)
    drain(three, four)
    got = Counter(one.bodies + two.bodies + three.bodies + four.bodies)
    assert got.keys() == set(sent)
    assert set((got - Counter(sent)).elements()) == set(one.bodies[told:])


@pytest.mark.parametrize("count", [2, 4])
def test_25_queues_are_shared_evenly(count: int, client: RawClient, join: Join) -> None:
    topic = f"C25-{count}"
    members = join_all(join, count, topic)
    sent = fill(client, topic, "m", 12)
    drain(*members)
    assert {len(member.got) for member in members} == {len(sent) // count}
    stay, go = members[: count // 2], members[count // 2 :]
    for member in go:
        member.crash()
    has_its_own(*stay)
    before = sum(len(member.got) for member in stay)
    fill(client, topic, "n", 12)
    drain(*stay)
    assert sum(len(member.got) for member in stay) == before + len(sent)


# --- subscriptions -------------------------------------------------------------------------------


def test_26_tags_of_several_groups(client: RawClient, join: Join) -> None:
    wanted = {"A": "A", "A || B": "AB", "A||C": "AC", "*": "ABC-", "D": ""}
    members = {text: join("a", {"C26": text}, f"C26-{number}")
               for number, text in enumerate(wanted)}  # fmt: skip
    sent = {tag: fill(client, "C26", tag, 4, TAGS=tag) for tag in "ABC"}
    sent["-"] = fill(client, "C26", "none", 4)
    drain(*members.values())
    for text, tags in wanted.items():
        expected = [body for tag in tags for body in sent[tag]]
        assert sorted(members[text].bodies) == sorted(expected), text
        ends = set(progress(client, "C26", members[text].group).values())
        assert ends == {(16, 16)}, "what is not wanted is behind it, too"


def test_26_members_of_one_group_share_what_has_its_tags(client: RawClient, join: Join) -> None:
    members = [join(name, {"C26b": "A||B"}) for name in ("one", "two")]
    has_its_own(*members)
    sent = {tag: fill(client, "C26b", tag, 4, TAGS=tag) for tag in "ABC"}
    drain(*members)
    assert sorted(members[0].bodies + members[1].bodies) == sorted(sent["A"] + sent["B"])
    assert len(members[0].got) == len(members[1].got)


def test_27_several_topics_each_with_its_tags(client: RawClient, join: Join) -> None:
    topics = {"C27a": "A", "C27b": "*", "C27c": "A||B"}
    members = [join(name, topics) for name in ("one", "two")]
    run(lambda: all(len(member.queues) == 3 * QUEUES // 2 for member in members), *members)
    sent = {
        (topic, tag): fill(client, topic, f"{topic}-{tag}", 3, TAGS=tag)
        for topic in topics
        for tag in "AB"
    }
    sent.pop(("C27a", "B"))
    drain(*members)
    expected = [body for bodies in sent.values() for body in bodies]
    assert sorted(members[0].bodies + members[1].bodies) == sorted(expected)
    assert len(members[0].got) == len(members[1].got)


def test_28_sql92_lets_two_of_three_pass(client: RawClient, join: Join) -> None:
    text = "(TAGS is not null and TAGS in ('TagA', 'TagB'))"
    pushed = join("a", {"C28": text}, kind="SQL92")
    sent = {tag: fill(client, "C28", tag, 16, TAGS=tag) for tag in ("TagA", "TagB", "TagC")}
    drain(pushed)
    pulled = []
    for queue in range(QUEUES):
        offset, code = 0, -1
        while code != ResponseCode.PULL_NOT_FOUND:
            answer = client.ask(
                Code.PULL_MESSAGE, consumerGroup="C28-pull", topic="C28", queueId=queue,
                queueOffset=offset, maxMsgNums=32, sysFlag=4, commitOffset=0, subVersion=0,
                suspendTimeoutMillis=0, subscription=text, expressionType="SQL92",
            )  # fmt: skip
            code, offset = answer.code, answer.int64("nextBeginOffset")
            pulled += [message.body for message in decode_all(answer.body)]
    assert sorted(pushed.bodies) == sorted(pulled) == sorted(sent["TagA"] + sent["TagB"])


# --- offsets -------------------------------------------------------------------------------------


def test_29_a_group_without_offsets_may_be_told_so(client: RawClient, join: Join) -> None:
    sent = fill(client, "C29", "m", 5)
    answer = client.ask(Code.QUERY_CONSUMER_OFFSET, consumerGroup="C29-group", topic="C29")
    assert answer.code == ResponseCode.SYSTEM_ERROR, "an error, not that there is none"
    assert "offset" not in (answer.ext or {})
    consumer = join("a", {"C29": "*"}, is_told_nothing_found=True)
    drain(consumer)
    assert sorted(consumer.bodies) == sorted(sent)
    consumer.leave()
    again = join("a", {"C29": "*"}, is_told_nothing_found=True)
    drain(again)
    assert again.got == []


def reset(client: RawClient, topic: str, group: str, ms: int) -> Command:
    answer = client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, topic=topic, group=group, timestamp=ms,
                        isForce="true")  # fmt: skip
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


def test_30_after_a_reset_exactly_so_many_come_again(client: RawClient, join: Join) -> None:
    members = join_all(join, 2, "C30")
    group = members[0].group

    def consumed() -> list[bytes]:
        drain(*members)
        found = sorted(body for member in members for body in member.bodies)
        for member in members:
            member.got.clear()
        return found

    old = fill(client, "C30", "old", 6)
    drain(*members)
    after_ms = 1 + max(message.store_ms for member in members for message in member.got)
    while time.time() * 1000 < after_ms:  # for the next messages to be later than these
        time.sleep(0.001)
    new = fill(client, "C30", "new", 4)
    assert consumed() == sorted(old + new)
    reset(client, "C30", group, 0)
    assert consumed() == sorted(old + new), "all queues"
    table = fastjson.loads(reset(client, "C30", group, after_ms).body)["offsetTable"]
    assert set(table.values()) == {6}
    assert consumed() == sorted(new), "from a time on"
    fill(client, "C30", "skipped", 3)
    reset(client, "C30", group, -1)
    assert consumed() == [], "behind the last"
    for member in members:
        member.leave()
    client.ask(Code.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic="C30", queueId=3,
               commitOffset=0)  # fmt: skip
    members = [join("alone", {"C30": "*"})]
    assert len(consumed()) == 6 + 4 + 3, "one queue"


def test_31_lag_counts_what_is_not_yet_consumed(client: RawClient, join: Join) -> None:
    consumer = join("a", {"C31": "*"})
    fill(client, "C31", "m", 10)
    drain(consumer)
    assert lag(client, "C31", consumer.group) == 0
    consumer.commits = False
    fill(client, "C31", "n", 10)
    drain(consumer)
    assert len(consumer.got) == 80, "pulled, but not done with"
    assert lag(client, "C31", consumer.group) == 40
    consumer.commits = True
    consumer.leave()
    assert lag(client, "C31", consumer.group) == 0
    fill(client, "C31", "o", 10)
    assert lag(client, "C31", consumer.group) == 40
    answer = client.ask(Code.GET_BROKER_CONSUME_STATS, isOrder="false")
    groups = fastjson.loads(answer.body)["consumeStatsList"]
    (mine,) = (each["C31-group"] for each in groups if "C31-group" in each)
    table = mine[0]["offsetTable"].values()
    assert sum(each["brokerOffset"] - each["consumerOffset"] for each in table) == 40


# --- routes --------------------------------------------------------------------------------------


def brokers_of(routes: RawClient, topic: str) -> list[str]:
    """The brokers that have queues of a topic; none when it has no route."""
    answer = routes.ask(Code.GET_ROUTEINFO_BY_TOPIC, topic=topic)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return []
    return sorted(each["brokerName"] for each in fastjson.loads(answer.body)["queueDatas"])


def test_32_a_topic_is_routed_to_the_brokers_that_have_it(
    name_server: MqNamesrv, client: RawClient
) -> None:
    routes = RawClient(name_server.port)
    with run_mqbroker(name_server=name_server.rocketmq, brokerName="broker-b") as second:
        other = RawClient(second.port)
        for each in (client, other):
            make_topic(each, "C32")
        assert brokers_of(routes, "C32") == ["broker-a", "broker-b"]
        assert other.ask(Code.DELETE_TOPIC_IN_BROKER, topic="C32").code == ResponseCode.SUCCESS
        # Both at once, as broker-a tells of the topic again every now and then.
        codes = (Code.DELETE_TOPIC_IN_NAMESRV, Code.GET_ROUTEINFO_BY_TOPIC)
        asked = [routes.request(code, topic="C32") for code in codes]
        routes.send(b"".join(map(frames.encode, asked)))
        answers = [routes.answer_to(each).code for each in asked]
        assert answers == [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST]
        make_topic(client, "C32b")
        make_topic(other, "C32c")  # each tells of all that it has
        assert brokers_of(routes, "C32") == ["broker-a"]
        other.close()
    routes.close()
