"""Messages of RocketMQ's topics: found, pulled, sent again, and where they went."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from penstock.admin.rocketmq.messages.finding import MessageQuery, by_id, find, record
from penstock.admin.rocketmq.messages.pulls import PULLS_MAX, backward, onward, pull, queues_of
from penstock.admin.rocketmq.messages.resend import _retry, hand_over, resend
from penstock.admin.rocketmq.messages.traces import trace, tracks
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.produce.trace import entry
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag, encode
from tests.unit.admin.rocketmq.scripted import A, B, Keeping, Scripted, progress, route

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def message(number: int, ms: int, **values: Any) -> bytes:
    host = Host.parse(A)
    text = f"UNIQ_KEY\1id-{number}\2KEYS\1key\2"
    return encode(StoredMessage("t", b"tea", 0, number, number, host, host, ms, ms, text, **values))


def found(*messages: bytes) -> Command:
    return Command(0, 0, None, b"".join(messages))


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"", "MISSING_ARG_TOPIC"),
        (b"topic=t&offset=x", "INVALID_OFFSET"),
        (b"topic=t&begin=-1", "INVALID_BEGIN"),
        (b"topic=t&queue=99999999999999999999", "INVALID_QUEUE"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(query: bytes, code: str) -> None:
    with pytest.raises(ApiError, match=code):
        MessageQuery.parse(query)


def test_a_limit_has_bounds() -> None:
    limits = [
        MessageQuery.parse(b"topic=t&limit=" + each).limit for each in (b"", b"0", b"5", b"9999")
    ]
    assert limits == [32, 1, 5, 64]


async def test_an_id_with_the_address_of_a_stranger_leads_nowhere() -> None:
    scripted = Scripted({ROUTE: route(), RequestCode.QUERY_MESSAGE: found()})
    stranger = str(OffsetId(Host.parse("10.9.8.7:80"), 5))
    assert await by_id(scripted, "t", stranger, Warnings()) == []
    assert {address for address, _, _ in scripted.asked} <= {A, B, "127.0.0.1:9876"}
    assert RequestCode.VIEW_MESSAGE_BY_ID not in [code for _, code, _ in scripted.asked]


async def test_an_id_of_a_broker_asks_that_broker() -> None:
    scripted = Scripted({(A, RequestCode.VIEW_MESSAGE_BY_ID): found(message(1, 10))})
    (one,) = await by_id(scripted, "t", str(OffsetId(Host.parse(A), 5)), Warnings())
    assert one.id == "id-1"
    assert await by_id(scripted, "other", one.offset_id, Warnings()) == []


async def test_an_index_may_know_other_keys_of_the_same_hash() -> None:
    answer = found(message(1, 10), message(2, 20))
    scripted = Scripted({ROUTE: route(), RequestCode.QUERY_MESSAGE: answer})
    told = await find(scripted, MessageQuery("t", 10, key="key"))
    assert [each["id"] for each in told["messages"]] == ["id-2", "id-2", "id-1", "id-1"]
    assert (await find(scripted, MessageQuery("t", 10, key="else")))["messages"] == []


async def test_messages_with_a_key_that_have_no_room_are_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.admin.rocketmq.messages.finding.ROOM", 2 * len(b"tea"))
    answer = found(message(2, 20), message(1, 10))
    scripted = Scripted({ROUTE: route(), RequestCode.QUERY_MESSAGE: answer})
    told = await find(scripted, MessageQuery("t", 10, key="key"))
    assert [each["id"] for each in told["messages"]] == ["id-2", "id-2"]
    assert told["message"].count("only the first 1 have room") == 2


async def test_a_time_goes_on_where_the_page_ends() -> None:
    keeping = Keeping({A: [10, 20, 30, 40]})
    told = await find(keeping, MessageQuery("t", 2, begin_ms=10, end_ms=40))
    assert [each["stored_ms"] for each in told["messages"]] == [10, 20]
    assert told["next_ms"] == 20
    told = await find(keeping, MessageQuery("t", 2, begin_ms=30, end_ms=40))
    assert ([each["stored_ms"] for each in told["messages"]], told["next_ms"]) == ([30, 40], None)


async def test_a_time_within_which_more_came_than_a_page_holds_still_goes_on() -> None:
    keeping = Keeping({A: [10] * 5, B: [10] * 5})
    assert (await find(keeping, MessageQuery("t", 2, begin_ms=10)))["next_ms"] == 11


@pytest.mark.parametrize("size", [3, 300, 3000])
@pytest.mark.parametrize("limit", [32, 64])
async def test_a_time_leaves_nothing_out_of_what_brokers_give_in_parts(
    size: int, limit: int
) -> None:
    keeping = Keeping({A: list(range(0, 200, 2)), B: list(range(1, 60, 2))}, size)
    seen: list[int] = []
    at: int | None = 0
    while at is not None:
        told = await find(keeping, MessageQuery("t", limit, begin_ms=at, end_ms=150))
        page = [each["stored_ms"] for each in told["messages"]]
        assert page == sorted(page)
        assert len(page) <= limit
        seen += [ms for ms in page if ms > max(seen, default=-1)]
        at = told["next_ms"]
    assert seen == [*range(60), *range(60, 151, 2)]


@pytest.mark.parametrize("size", [3, 300, 3000])
@pytest.mark.parametrize("limit", [5, 32, 64])
async def test_the_newest_are_the_newest_whatever_a_broker_gives_at_once(
    size: int, limit: int
) -> None:
    keeping = Keeping({A: list(range(0, 200, 2)), B: list(range(1, 60, 2))}, size)
    told = await find(keeping, MessageQuery("t", limit))
    newest = [*range(198, 58, -2), *range(59, -1, -1)]
    assert [each["stored_ms"] for each in told["messages"]] == newest[:limit]
    told = await find(keeping, MessageQuery("t", limit, broker="b"))
    assert [each["stored_ms"] for each in told["messages"]] == [*range(59, -1, -2)][:limit]


async def test_what_does_not_fit_is_left_out_at_the_far_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.admin.rocketmq.messages.finding.ROOM", 12_000)
    keeping = Keeping({A: [*range(100)], B: [*range(90, 100)]}, 2400)
    told = await find(keeping, MessageQuery("t", 32))
    assert [each["stored_ms"] for each in told["messages"]] == [99, 99, 98, 98, 97, 97]
    told = await find(keeping, MessageQuery("t", 32, offset=0))
    assert [each["offset"] for each in told["messages"]] == [0, 0, 1, 1, 2, 2]
    told = await find(keeping, MessageQuery("t", 32, begin_ms=90))
    assert [each["stored_ms"] for each in told["messages"]] == [90, 90, 91, 91, 92, 92]
    assert told["next_ms"] == 92


async def test_a_place_has_as_many_as_are_wished_for() -> None:
    keeping = Keeping({A: [*range(100)], B: []}, 300)
    told = await find(keeping, MessageQuery("t", 64, queue=0, offset=10))
    assert [each["offset"] for each in told["messages"]] == [*range(10, 74)]


def stored(body: bytes = b"tea", **values: str) -> Received:
    host = Host.parse("10.0.0.1:5")
    text = properties.join(values)
    return Received(StoredMessage("t", body, 1, 2, 3, host, host, 4, 5, text), "a")


def test_a_message_with_all_that_there_is_to_it() -> None:
    found = record(stored(KEYS="k1 k2", TAGS="x", UNIQ_KEY="id", own="1"), 100)
    assert (found["id"], found["keys"], found["tags"]) == ("id", ["k1", "k2"], "x")
    assert (found["broker"], found["queue"], found["offset"]) == ("a", 1, 2)
    assert (found["body"], found["size"], found["properties"]["own"]) == ("tea", 3, "1")
    assert found["origin"] == "t"
    assert record(stored(RETRY_TOPIC="orders"), 100)["origin"] == "orders"


@pytest.mark.parametrize(
    ("body", "most", "shown"),
    [
        (b"\xff\xfe", 10, {"body_base64": "//4="}),
        ("aß".encode(), 2, {"body": "a"}),
        ("a\N{ROCKET}".encode(), 4, {"body": "a"}),
        (b"\xff" + b"a" * 9, 9, {"body_base64": "/2FhYWFhYWFh"}),
        (b"", 10, {"body": ""}),
    ],
)
def test_a_body_is_cut_between_characters(body: bytes, most: int, shown: dict[str, str]) -> None:
    found = record(stored(body), most)
    assert {name: found[name] for name in found if name.startswith("body")} == shown
    assert found["size"] == len(body)


PULL = RequestCode.PULL_MESSAGE


async def test_a_pull_commits_nothing_and_waits_for_nothing() -> None:
    scripted = Scripted({ROUTE: route(), PULL: Command(0, 0)})
    queue = queues_of(await scripted.route("t"), "t")[0]
    assert await pull(scripted, queue, 5, 3, 1) == []
    address, _, fields = scripted.asked[-1]
    assert (address, fields["queueOffset"], fields["maxMsgNums"]) == (A, "5", "3")
    assert (fields["sysFlag"], fields["suspendTimeoutMillis"]) == ("4", "0")
    scripted.answers[ROUTE] = route(perm=2)  # nobody may read
    assert queues_of(await scripted.route("t"), "t") == []


async def test_an_end_is_no_failure_but_a_refusal_is() -> None:
    scripted = Scripted({ROUTE: route()})
    queue = queues_of(await scripted.route("t"), "t")[0]
    scripted.answers[PULL] = Refused(ResponseCode.PULL_OFFSET_MOVED, "moved")
    assert await pull(scripted, queue, 5, 3, 1) == []
    scripted.answers[PULL] = Refused(ResponseCode.NO_PERMISSION, "no")
    with pytest.raises(Refused):
        await pull(scripted, queue, 5, 3, 1)


async def test_a_few_kilobytes_are_not_unpacked_to_gigabytes() -> None:
    """Anybody who may send to a topic could end nsqadmin otherwise."""
    host = Host.parse(A)
    packed = zlib.compress(bytes(600 << 10))
    bomb = zlib.compress(bytes(5 << 20))
    messages = [
        StoredMessage("t", body, 0, n, n, host, host, 1, 1, "", sys_flag=int(SysFlag.COMPRESSED))
        for n, body in enumerate([bomb, *[packed] * 31])
    ]
    answer = Command(0, 0, None, b"".join(map(encode, messages)))
    scripted = Scripted({ROUTE: route(), PULL: answer})
    queue = queues_of(await scripted.route("t"), "t")[0]
    found = await pull(scripted, queue, 0, 32, 1 << 20)
    assert [len(each.body) for each in found] == [len(bomb), 600 << 10, 600 << 10]
    (first,) = await pull(scripted, queue, 0, 32, 1)
    assert first.body == bomb


async def test_a_look_back_goes_over_what_is_lost_and_not_for_ever() -> None:
    keeping = Keeping({A: [*range(1000)]})
    queue = queues_of(await keeping.route("t"), "t")[0]
    keeping.lost = range(900, 990)
    part = await backward(keeping, queue, 20, 1 << 20)
    assert [each.queue_offset for each in part.messages] == [*range(890, 900), *range(990, 1000)]
    keeping.lost = range(1000)
    keeping.asked.clear()
    assert await backward(keeping, queue, 2, 1 << 20) == ([], False)
    assert len(keeping.asked) == PULLS_MAX


async def test_the_end_of_a_queue_is_known() -> None:
    keeping = Keeping({A: [*range(40)]})
    queue = queues_of(await keeping.route("t"), "t")[0]
    assert (await onward(keeping, queue, 0, 50, 1 << 20)).is_all
    assert not (await onward(keeping, queue, 0, 40, 1 << 20)).is_all
    assert (await backward(keeping, queue, 50, 1 << 20)).is_all
    assert not (await backward(keeping, queue, 39, 1 << 20)).is_all


CODE = RequestCode.CONSUME_MESSAGE_DIRECTLY
ID = str(OffsetId(Host.parse(A), 1))


def test_a_letter_becomes_a_first_try_of_its_group() -> None:
    letter = stored(RETRY_TOPIC="orders", UNIQ_KEY="id", DELAY="3", WAIT="false", own="1")
    draft = _retry(letter, "g")
    kept = properties.parse(draft.properties)
    assert (draft.topic, draft.body, draft.reconsume_times) == ("%RETRY%g", b"tea", 0)
    assert (kept["RETRY_TOPIC"], kept["own"]) == ("orders", "1")
    assert not {"DELAY", "WAIT"} & set(kept)


async def test_ids_that_nobody_knows_are_told() -> None:
    scripted = Scripted({ROUTE: route(), RequestCode.QUERY_MESSAGE: Command(0, 0)})
    told = await resend(scripted, "t", ["gone"])
    assert told == {"sent": [], "not_found": ["gone"], "message": ""}


def servers() -> Scripted:
    told = {"consumeResult": "CR_LATER", "spentTimeMills": 7, "remark": None, "order": False}
    return Scripted({RequestCode.VIEW_MESSAGE_BY_ID: found(message(1, 10)), (A, CODE): told})


async def test_the_member_is_named_to_the_broker_that_has_the_message() -> None:
    scripted = servers()
    done = await hand_over(scripted, "t", ID, "g", "c@1")
    assert done == {
        "result": "CR_LATER", "remark": None, "spent_ms": 7, "ordered": False, "message": "",
    }  # fmt: skip
    ((address, fields),) = [(at, fields) for at, code, fields in scripted.asked if code == CODE]
    assert (address, fields["consumerGroup"], fields["clientId"], fields["msgId"]) == (
        A, "g", "c@1", ID,
    )  # fmt: skip


async def test_a_message_that_is_gone_and_a_member_that_is_not_online() -> None:
    scripted = servers()
    with pytest.raises(ApiError, match="MESSAGE_NOT_FOUND"):
        await hand_over(scripted, "other", ID, "g", "c@1")
    scripted.answers[A, CODE] = Refused(1, "The Consumer <g> <c@1> not online")
    with pytest.raises(Refused, match="not online"):
        await hand_over(scripted, "t", ID, "g", "c@1")


OFFLINE = Refused(ResponseCode.CONSUMER_NOT_ONLINE, "not online")


def online(kind: str = "CONSUME_PASSIVELY", *tags: str) -> dict[str, Any]:
    return {
        "connectionSet": [{"clientId": "c@1"}], "consumeType": kind,
        "subscriptionTable": {"t": {"topic": "t", "tagsSet": list(tags)}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("connections", "consumed", "state", "members"),
    [
        (online(), 2, "consumed", ["c@1"]),
        (online(), 1, "waits", ["c@1"]),
        (online("CONSUME_PASSIVELY", "other"), 2, "filtered", ["c@1"]),
        (online("CONSUME_ACTIVELY"), 2, "unknown", ["c@1"]),
        (OFFLINE, 2, "consumed", []),
        (OFFLINE, 1, "waits", []),
    ],
)
async def test_the_state_in_a_group(
    connections: object, consumed: int, state: str, members: list[str]
) -> None:
    servers = Scripted(
        {
            RequestCode.VIEW_MESSAGE_BY_ID: found(message(1, 10)),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"groupList": ["g"]},
            RequestCode.GET_CONSUMER_CONNECTION_LIST: connections,
            RequestCode.GET_CONSUME_STATS: progress("a", 9, consumed),
        }
    )
    told = await tracks(servers, "t", ID)
    assert told == {"groups": [{"group": "g", "state": state, "members": members}], "message": ""}


async def test_a_message_that_nobody_has_and_traces_that_no_broker_keeps() -> None:
    with pytest.raises(ApiError, match="MESSAGE_NOT_FOUND"):
        await tracks(Scripted({RequestCode.VIEW_MESSAGE_BY_ID: Refused(1, "gone")}), "t", ID)
    gone = Refused(ResponseCode.TOPIC_NOT_EXIST, "no route")
    nothing = {"sent": [], "ended": [], "consumed": [], "message": ""}
    assert await trace(Scripted({ROUTE: gone}), "U1") == nothing


SENT = entry("Pub", 5, "R", "shop", "T", "U0,U1", "", "", "store:1", 4, 12, 0, "OFFSET", True)
ENDED = entry("EndTransaction", 8, "R", "shop", "T", "U1", "", "", "h", 2, "tx", "COMMIT_MESSAGE",
              False)  # fmt: skip
FAILED = entry("SubBefore", 20, "R", "billing", "r1", "U1", 0, "k") + entry(
    "SubAfter", "r1", "U1", 7, False, "k", 4
)
UNDER_WAY = entry("SubBefore", 30, "R", "billing", "r2", "U1", 1, "k")
TOPIC = "RMQ_SYS_TRACE_TOPIC"


def told(*bodies: str) -> Scripted:
    host = Host.parse(A)
    messages = [
        encode(StoredMessage(TOPIC, body.encode(), 0, at, at, host, host, 1, 2, "KEYS\1U1\2"))
        for at, body in enumerate(bodies)
    ]
    code = RequestCode.QUERY_MESSAGE
    answers = {(A, code): found(*messages), (B, code): found()}
    return Scripted({ROUTE: route(), **answers})


async def test_sends_and_tries_in_their_order_whoever_told_them_first() -> None:
    whole = await trace(told(UNDER_WAY, FAILED, ENDED, SENT), "U1")
    (sent,) = whole["sent"]
    assert (sent["group"], sent["client"], sent["store_host"], sent["cost_ms"]) == (
        "shop", "127.0.0.1", "store:1", 12,
    )  # fmt: skip
    assert [each["state"] for each in whole["ended"]] == ["COMMIT_MESSAGE"]
    tries = [(each["group"], each["retries"], each["ok"]) for each in whole["consumed"]]
    assert tries == [("billing", 0, False), ("billing", 1, None)]
