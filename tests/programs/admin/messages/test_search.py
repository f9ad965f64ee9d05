"""Searches through logs, walks over what they find, and replays of it, over real nodes."""

from __future__ import annotations

import asyncio
import functools
import json
import operator
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.admin.messages.known_nodes import KnownNodes
from penstock.admin.messages.logs import Place
from penstock.admin.messages.search import conditions, replay
from penstock.admin.messages.search import walk as module
from penstock.admin.messages.search.request import WalkBody, places
from penstock.admin.messages.search.walk import COUNTING, Budget, Hit, Scan, Walk
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.service import DeferredResponse
from penstock.net.http.server.v1_api import ApiError, error_response
from tests.programs.admin.messages.conftest import Pair, Site
from tests.unit.admin.conftest import until
from tests.unit.cli.nodes_at_work import publish


async def test_all_that_is_kept_unless_told(pair: Pair) -> None:
    nodes, warnings = KnownNodes(pair.running.admin.cluster), Warnings()
    assert await places(nodes, WalkBody("t", kind="all"), warnings) == [
        Place(each, 0, 20) for each in pair.names
    ]
    (no_log,) = warnings.errors
    assert no_log.startswith(f"{pair.go.address} keeps no log")


async def test_where_an_answer_ended_within_what_is_held(pair: Pair) -> None:
    nodes, warnings = KnownNodes(pair.running.admin.cluster), Warnings()
    text = f"scan:{pair.names[0]}@3-99,gone:1@0-9"
    assert await places(nodes, WalkBody("t", from_=text), warnings) == [Place(pair.names[0], 3, 20)]
    assert warnings.errors == ["gone:1 is not searched any further: its log cannot be asked for"]
    with pytest.raises(ApiError, match="NODE_NOT_FOUND"):
        await places(nodes, WalkBody("t", from_="scan:gone:1@0-9"), warnings)


async def bodies(pair: Pair, *places: Place) -> list[list[bytes]]:
    """Of each piece."""
    reading = Scan(pair.running.admin.http, "t", places)
    return [
        [body for run in piece for body in run.stretch.bodies()] async for piece in reading.pieces()
    ]


async def test_by_time_between_two_places(pair: Pair) -> None:
    one, other = pair.names
    (piece,) = await bodies(pair, Place(one, 2, 5), Place(other, 0, 4))
    assert piece == [b"m1", b"m3", b"m4", b"m5", b"m6", b"m7", b"m8"]
    assert await bodies(pair, Place(one, 5, 5)) == []


async def test_in_small_pieces(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_MESSAGES", 7)
    pieces = await bodies(pair, *(Place(node, 0, 20) for node in pair.names))
    assert [len(piece) for piece in pieces] == [7, 7, 7, 7, 7, 5]
    assert functools.reduce(operator.iadd, pieces, []) == [b"m%d" % number for number in range(40)]


async def test_a_node_that_cannot_be_read_is_named(pair: Pair) -> None:
    reading = Scan(pair.running.admin.http, "t", [Place(pair.go.address, 0, 9),
                                                   Place(pair.names[0], 0, 3)])  # fmt: skip
    assert [sum(run.size for run in piece) async for piece in reading.pieces()] == [3]
    assert list(reading.failed) == [pair.go.address]


def walk_of(pair: Pair) -> Walk:
    return Walk(pair.running.admin.http, "t", [Place(node, 0, 20) for node in pair.names])


async def test_it_stands_behind_the_last_that_it_has_found(pair: Pair) -> None:
    walk, seen = walk_of(pair), list[bytes]()

    async def take(hits: Sequence[Hit]) -> None:
        seen.extend(hit.message.body for hit in hits)

    await walk.run(lambda body: body.endswith(b"5"), Budget(2, seconds=60), take)
    assert seen == [b"m5", b"m15"]
    assert (walk.found, walk.found_bytes, walk.looked_at) == (2, 5, 16)
    assert walk.places == [Place(pair.names[0], 8, 20), Place(pair.names[1], 8, 20)]


async def test_after_an_error_it_stands_before_what_was_not_taken(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_MESSAGES", 10)
    walk = walk_of(pair)

    async def take(hits: Sequence[Hit]) -> None:
        if hits[0].message.body == b"m10":
            raise OSError

    with pytest.raises(OSError):
        await walk.run(None, Budget(COUNTING, seconds=60), take)
    assert (walk.found, walk.looked_at) == (10, 10)
    assert [place.at for place in walk.places] == [5, 5]


async def test_at_the_end_nothing_is_left(pair: Pair) -> None:
    walk = walk_of(pair)

    async def take(hits: Sequence[Hit]) -> None:
        pass

    await walk.run(None, Budget(COUNTING, seconds=60), take)
    assert (walk.found, walk.places, walk.failed) == (40, [], {})


PATH = "/api/messages/search"


@pytest.fixture(scope="module", autouse=True)
def orders(real_nodes: list[Any]) -> None:
    """300 orders on two nodes, in batches."""
    for number in range(0, 300, 10):
        lines = [json.dumps({"id": n, "kind": ("even", "odd")[n % 2]}) for n in
                 range(number, number + 10)]  # fmt: skip
        publish(real_nodes[number // 10 % 2], "orders", [line.encode() for line in lines])


async def found(pair: Pair, **wish: Any) -> dict[str, Any]:
    status, answer = await pair.post(PATH, {"topic": "orders", **wish}, user="")
    assert status == 200, answer
    return dict(answer)


def ids(answer: dict[str, Any]) -> list[int]:
    return [json.loads(each["body"])["id"] for each in answer["messages"]]


async def test_a_text_a_field_and_an_expression(pair: Pair) -> None:
    assert ids(await found(pair, kind="text", what='"ID":17,')) == []
    assert ids(await found(pair, kind="text", what='"ID": 17,')) == [17]
    assert ids(await found(pair, kind="json", what="$.id >= 297")) == [297, 298, 299]
    assert ids(await found(pair, kind="regex", what=r'id": \d\d?5,')) == [*range(15, 300, 10)]


async def test_it_is_over_all_nodes_by_time_and_says_how_much_it_looked_at(pair: Pair) -> None:
    answer = await found(pair, kind="json", what="kind = odd", limit=200)
    assert ids(answer) == [*range(1, 300, 2)]
    assert (answer["looked_at"], answer["left"], answer["next"]) == (300, 0, None)
    assert answer["found"] == 150
    assert {each["node"] for each in answer["messages"]} == set(pair.names)


async def test_it_goes_on_behind_what_it_has_found(pair: Pair) -> None:
    answer = await found(pair, kind="json", what="kind = odd", limit=7)
    seen = ids(answer)
    while answer["next"]:
        assert answer["left"] > 0
        answer = await found(
            pair, kind="json", what="kind = odd", limit=7, **{"from": answer["next"]}
        )
        seen += ids(answer)
    assert seen == [*range(1, 300, 2)]


async def test_what_comes_later_is_not_part_of_it(pair: Pair) -> None:
    first = await found(pair, kind="json", what="id", limit=1)
    publish(pair.nodes[0], "orders", [b'{"id": 1000}'])
    rest = await found(pair, kind="json", what="id", limit=0, **{"from": first["next"]})
    assert rest["found"] == 299


async def test_counting_shows_nothing(pair: Pair) -> None:
    answer = await found(pair, kind="json", what="id < 10", limit=0)
    assert (answer["found"], answer["messages"]) == (10, [])
    assert answer["found_bytes"] == sum(len(json.dumps({"id": n, "kind": ("even", "odd")[n % 2]}))
                                        for n in range(10))  # fmt: skip


async def test_between_two_times_and_on_one_node(pair: Pair) -> None:
    page = await found(pair, kind="json", what="id < 300", limit=200)
    at = {json.loads(each["body"])["id"]: each["timestamp"] for each in page["messages"]}
    since, until_ = at[100] // 1_000_000, at[199] // 1_000_000
    answer = await found(pair, kind="json", what="id", limit=200,
                         **{"from": f"time:{since}", "until": f"time:{until_}"})  # fmt: skip
    assert set(ids(answer)) == {n for n, ns in at.items() if since <= ns / 1e6 < until_}
    answer = await found(pair, kind="json", what="id = 15", node=pair.names[0])
    assert ids(answer) == []
    assert ids(await found(pair, kind="json", what="id = 15", node=pair.names[1])) == [15]


@pytest.mark.parametrize("budget", [{"messages": 20}, {"nbytes": 300}, {"seconds": 0.0}])
async def test_one_request_does_little(
    pair: Pair, budget: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.admin.messages.search.walk.PIECE_MESSAGES", 16)
    for name, value in budget.items():
        defaults = dict(Budget._field_defaults, **{name: value})
        fields = [defaults[each] for each in Budget._fields if each in defaults]
        monkeypatch.setattr(Budget.__new__, "__defaults__", tuple(fields))
    answer = await found(pair, kind="text", what="nothing like it")
    assert 0 < answer["looked_at"] < 40
    assert answer["left"] == 301 - answer["looked_at"]


async def test_others_are_served_while_an_expression_takes_its_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition never ends by itself here: only another request lets it go."""
    import threading

    begun, may_end = threading.Event(), threading.Event()

    def takes(body: bytes) -> bool:
        begun.set()
        assert may_end.wait(60), "the loop did not run meanwhile"
        return False

    monkeypatch.setitem(conditions._KINDS, "text", lambda what: takes)
    search = asyncio.ensure_future(found(pair, kind="text", what="x"))
    await until(begun.is_set)
    assert (await pair.get("/api/topics"))[0] == 200
    may_end.set()
    assert (await search)["found"] == 0


async def test_few_at_the_same_time(site: Site) -> None:
    late = DeferredResponse()
    site.ours.answers["/log/offsets"] = late
    body = {"topic": "t", "kind": "text", "what": "x"}
    searches = [asyncio.ensure_future(site.post(PATH, body)) for _ in range(4)]
    await until(lambda: len([each for each in site.asked() if "/log/" in each]) == 4)
    assert await site.post(PATH, body) == (503, {"message": "TOO_MANY_SEARCHES"})
    for search in searches:
        search.cancel()


async def test_a_go_nsqd_is_told_of(pair: Pair) -> None:
    status, answer = await pair.post(PATH, {"topic": "t", "kind": "text", "what": "m39"})
    assert (status, [each["body"] for each in answer["messages"]]) == (200, ["m39"])
    assert "keeps no log to look into: it is a Go nsqd" in answer["message"]


async def test_a_node_that_fails_midway_is_left_out_with_a_warning(site: Site) -> None:
    site.ours.answers |= {"/log/offsets": {"queues": [{"start": 0, "end": 90}]}}
    status, answer = await site.post(PATH, {"topic": "t", "kind": "text", "what": "x"})
    assert (status, answer["next"], answer["left"]) == (200, None, 0)
    assert "what is left on this node is not searched" in answer["message"]


REPLAY = "/api/messages/replay"
SEARCH = "/api/messages/search"


async def sent(pair: Pair, **body: Any) -> dict[str, Any]:
    status, answer = await pair.post(REPLAY, {"topic": "t", **body})
    assert status == 200, answer
    return dict(answer)


async def test_what_was_chosen(pair: Pair) -> None:
    _, page = await pair.get("/api/messages?topic=t&from=oldest&limit=10")
    wanted = [page["messages"][at] for at in (6, 3, 2)]
    chosen = [{name: each[name] for name in ("node", "offset", "id")} for each in wanted]
    gone = {**chosen[0], "id": "0" * 16}
    beyond = {**chosen[0], "offset": 10**6, "id": "1" * 16}
    answer = await sent(pair, to="chosen", chosen=[*chosen, gone, beyond])
    assert (answer["sent"], answer["left"], answer["not_found"]) == (3, 0, ["0" * 16, "1" * 16])
    assert (answer["stopped"], answer["unsent"]) == (False, [])
    assert (pair.bodies("chosen", 0), pair.bodies("chosen", 1)) == (["m2", "m6"], ["m3"])


async def test_all_that_match_as_they_were_counted(pair: Pair) -> None:
    wish = {"topic": "t", "kind": "regex", "what": "m[12]"}
    _, counted = await pair.post(SEARCH, {**wish, "limit": 0})
    assert counted["found"] == 22
    answer = await sent(pair, **wish, to="matching", **{"from": counted["range"]})
    assert (answer["sent"], answer["empty"], answer["next"]) == (22, 0, None)
    assert not answer["stopped"], "that Go's nsqd has no log is another matter"
    both = [pair.bodies("matching", 0), pair.bodies("matching", 1)]
    assert both[0] == [f"m{n}" for n in range(0, 40, 2) if str(n)[0] in "12"]
    assert both[1] == [f"m{n}" for n in range(1, 40, 2) if str(n)[0] in "12"]


async def test_a_topic_may_be_replayed_to_itself(pair: Pair) -> None:
    for node in (0, 1):
        pair.publish("itself", b"x", node)
    answer = await sent(pair, topic="itself", to="itself", kind="all")
    assert (answer["sent"], answer["next"]) == (2, None)
    assert pair.bodies("itself", 0) == ["x", "x"]


async def test_a_request_that_stops_is_gone_on_with(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "SECONDS", 0.0)
    monkeypatch.setattr("penstock.admin.messages.search.walk.PIECE_MESSAGES", 4)
    answer = await sent(pair, kind="all", to="pieces")
    rounds = 1
    while answer["next"]:
        answer = await sent(pair, kind="all", to="pieces", **{"from": answer["next"]})
        rounds += 1
    assert rounds > 3
    assert pair.bodies("pieces", 0) == [f"m{n}" for n in range(0, 40, 2)]
    assert pair.bodies("pieces", 1) == [f"m{n}" for n in range(1, 40, 2)]


async def test_what_was_sent_before_a_node_refused_is_not_sent_again(pair: Pair) -> None:
    """A full topic on the second node takes nothing; the first one has taken all of its own."""
    for node in (0, 1):
        pair.make("full", node)
    pair.configure("full", {"max_depth": 1}, node=1)
    pair.publish("full", b"x", node=1)
    answer = await sent(pair, kind="all", to="full")
    assert "full did not take all: got response 503" in answer["message"]
    assert (answer["sent"], answer["left"], answer["stopped"]) == (20, 20, True)
    pair.configure("full", {}, node=1)
    answer = await sent(pair, kind="all", to="full", **{"from": answer["next"]})
    assert (answer["sent"], answer["next"]) == (20, None)
    assert len(pair.bodies("full", 0)) == 20
    assert len(pair.bodies("full", 1)) == 21


async def test_a_node_that_fails_is_gone_on_with(site: Site) -> None:
    site.ours.answers |= {"/log/offsets": {"queues": [{"start": 0, "end": 90}]},
                          "/log/fetch": error_response(500, "INTERNAL_ERROR")}  # fmt: skip
    status, answer = await site.post(REPLAY, {"topic": "t", "to": "x", "kind": "all"})
    assert (status, answer["sent"], answer["left"]) == (200, 0, 90)
    assert answer["next"] == f"scan:{site.node}@0-90"
    assert "INTERNAL_ERROR" in answer["message"]
