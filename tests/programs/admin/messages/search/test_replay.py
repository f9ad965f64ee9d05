"""Replay over real nodes: what is chosen or matches is published again, where it was read."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.messages.search import replay
from penstock.net.http.server.api import error_response
from tests.programs.admin.messages.conftest import Pair, Site

PATH = "/api/messages/replay"
SEARCH = "/api/messages/search"


async def sent(pair: Pair, **body: Any) -> dict[str, Any]:
    status, answer = await pair.post(PATH, {"topic": "t", **body})
    assert status == 200, answer
    return dict(answer)


async def test_only_administrators(pair: Pair) -> None:
    for user in ("", "eve"):
        body = {"topic": "t", "to": "refused"}
        assert await pair.post(PATH, body, user) == (403, {"message": "FORBIDDEN"})
    assert (await pair.get("/api/topics/refused"))[0] == 404


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


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"to": ""}, 400, "INVALID_TO"),
        ({"to": "x"}, 400, "INVALID_ARG_KIND"),
        ({"to": "no name"}, 400, "INVALID_TO"),
        ({"to": "x", "kind": "all", "topic": "none"}, 404, "TOPIC_NOT_FOUND"),
        ({"to": "x", "kind": "regex", "what": "("}, 400, "INVALID_ARG_WHAT: missing ): ("),
        ({"to": "x", "chosen": [{"node": "a", "offset": 0, "id": "x"}]}, 404, "NODE_NOT_FOUND"),
        (
            {"to": "x", "chosen": [{"node": "a", "offset": 0, "id": "x"}] * 1001},
            400,
            "TOO_MANY_IDS",
        ),
        ({"to": "x", "chosen": "all"}, 400, "INVALID_BODY"),
    ],
)
async def test_refusals(pair: Pair, body: dict[str, Any], status: int, code: str) -> None:
    assert await pair.post(PATH, {"topic": "t", **body}) == (status, {"message": code})


async def test_a_node_that_fails_is_gone_on_with(site: Site) -> None:
    site.ours.answers |= {"/log/offsets": {"queues": [{"start": 0, "end": 90}]},
                          "/log/fetch": error_response(500, "INTERNAL_ERROR")}  # fmt: skip
    status, answer = await site.post(PATH, {"topic": "t", "to": "x", "kind": "all"})
    assert (status, answer["sent"], answer["left"]) == (200, 0, 90)
    assert answer["next"] == f"scan:{site.node}@0-90"
    assert "INTERNAL_ERROR" in answer["message"]
