from __future__ import annotations

import asyncio
import json

import pytest

from penstock.admin.messages import letters as module
from penstock.admin.messages.letters import lines
from penstock.cluster.asker import Asker
from penstock.cluster.errors import UpstreamError
from penstock.net.http.server.api import error_response
from penstock.net.http.server.service import Response
from penstock.nsq.dead_letters import letters
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import Daemon
from tests.unit.admin.conftest import TIMEOUT_S, StartAdmin, StartFake, until
from tests.unit.cli.nodes_at_work import ask, consume, publish

from .conftest import BODIES, Site, message

NO_CHANNEL = error_response(404, "CHANNEL_NOT_FOUND")


def row(topic: str, count: int, **more: object) -> dict[str, object]:
    return {"topic": topic, "letters": count, "is_rocketmq": False, "channel": None, **more}


async def test_topics_over_all_nodes_and_none_of_gos(site: Site) -> None:
    rocketmq = row("%DLQ%g", 1, is_rocketmq=True)
    site.ours.answers["/deadletters/topics"] = {"topics": [row("t.dead", 3), rocketmq]}
    found = await site.get("/api/deadletters")
    assert found[1]["message"] == ""
    assert [each["topic"] for each in found[1]["topics"]] == ["%DLQ%g", "t.dead"]
    site.theirs.answers["/deadletters/topics"] = {"topics": [row("t.dead", 4)]}
    assert (await site.get("/api/deadletters"))[1]["topics"][1] == {
        "topic": "t.dead", "letters": 7, "is_rocketmq": False,
        "nodes": [{"node": site.node, "letters": 3}, {"node": site.go, "letters": 4}],
    }  # fmt: skip


async def test_a_node_that_fails_is_a_warning_and_all_of_them_an_error(site: Site) -> None:
    site.ours.answers["/deadletters/topics"] = {"topics": [row("t.dead", 3)]}
    site.theirs.answers["/deadletters/topics"] = Response(500)
    status, found = await site.get("/api/deadletters")
    assert (status, len(found["topics"])) == (200, 1)
    assert found["message"].startswith("WARNING: got response 500")
    # Whoever could not be asked may have it.
    assert (await site.get("/api/deadletters/u.dead/export"))[0] == 502
    site.ours.answers["/deadletters/topics"] = Response(500)
    assert (await site.get("/api/deadletters"))[0] == 502


async def test_a_page_of_a_node(site: Site) -> None:
    site.ours.answers["/channel/peek"] = {"messages": [message(3)], "next": 4}
    path = f"/api/deadletters/t.dead?node={site.node}&limit=1"
    assert await site.get(path) == (200, {"node": site.node, "topic": "t.dead", "next": 4,
                                          "messages": [message(3)], "message": ""})  # fmt: skip
    assert (await site.get(f"/api/deadletters/t.dead?node={site.go}"))[0] == 501
    assert (await site.get("/api/deadletters/t.dead?node=n:1"))[0] == 404
    assert (await site.get("/api/deadletters/t.dead"))[1] == {"message": "MISSING_ARG_NODE"}


async def test_a_page_from_a_time_on(site: Site) -> None:
    site.ours.answers |= {"/log/offset_at": {"offset": 7},
                          "/channel/peek": {"messages": [message(8)], "next": None}}  # fmt: skip
    path = f"/api/deadletters/t.dead?node={site.node}&from=time:5"
    assert (await site.get(path))[0] == 200
    assert site.asked()[-2:] == [
        "GET /log/offset_at?topic=t.dead&timestamp_ns=5000000",
        "GET /channel/peek?topic=t.dead&channel=penstock-dlq&from=7&limit=50",
    ]


async def exported(asker: Asker, nsqd: Daemon, form: str = "raw") -> list[bytes]:
    pieces = [piece async for piece in lines(asker, nsqd.http, "orders.dead", form)]
    return b"".join(pieces).splitlines()


async def test_what_is_left_as_lines(dead: Daemon, asker: Asker) -> None:
    assert await exported(asker, dead) == BODIES
    found = [json.loads(line) for line in await exported(asker, dead, "json")]
    assert [(each["node"], each["topic"], each["offset"]) for each in found] == [
        (dead.http, "orders.dead", offset) for offset in range(6)
    ]
    assert {each["origin"]["channel"] for each in found} == {"bill"}


async def test_without_what_was_dealt_with(
    dead: Daemon, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "_PAGE", 2)
    ask(dead, "POST", f"/channel/create?topic=orders.dead&channel={CHANNEL}&from=oldest")
    assert await exported(asker, dead) == BODIES
    consume(dead, "orders.dead", CHANNEL, 2)
    async with asyncio.timeout(TIMEOUT_S):
        while await exported(asker, dead) != BODIES[2:]:
            pass


async def test_many_letters_in_small_pieces(dead: Daemon, asker: Asker) -> None:
    many = [b"%d" % number * 100 for number in range(5000)]
    publish(dead, "orders.dead", many)
    pieces = [piece async for piece in lines(asker, dead.http, "orders.dead", "raw")]
    assert b"".join(pieces).splitlines() == [*BODIES, *many]
    assert max(map(len, pieces)) < 70_000


async def test_through_nsqadmin(dead: Daemon, admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=(dead.http,))
    path = "/api/deadletters/orders.dead/export"
    for query in ("?form=raw", f"?form=raw&node={dead.http}"):
        assert (await running.ask("GET", path + query))[1].encode().splitlines() == BODIES
    for query, status, code in (
        ("?form=xml", 400, "INVALID_ARG_FORM"),
        ("?node=127.0.0.1:1", 404, "NODE_NOT_FOUND"),
    ):
        found = await running.ask("GET", path + query)
        assert found == (status, json.dumps({"message": code}, separators=(",", ":")))
    for path in ("/api/deadletters/no.dead/export", "/api/deadletters/orders.dead/other"):
        assert (await running.ask("GET", path))[0] == 404


async def test_names_of_files_are_safe(site: Site) -> None:
    name = 'a"b\r\nX: y'
    site.ours.answers["/deadletters/topics"] = {"topics": [row(name, 0)]}
    site.ours.answers["/log/offsets"] = {"queues": [{"start": 0, "end": 0}]}
    reader, writer = await asyncio.open_connection("127.0.0.1", site.running.admin.http_port)
    writer.write(b"GET /api/deadletters/a%22b%0D%0AX:%20y/export HTTP/1.1\r\nHost: h\r\n\r\n")
    head = (await reader.read()).partition(b"\r\n\r\n")[0]
    writer.close()
    assert b'filename="a_b__X__y.jsonl"' in head
    assert b"\r\nX:" not in head


async def test_no_more_than_so_many_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPORTS_AT_ONCE", 0)
    assert await site.get("/api/deadletters/t.dead/export") == (
        503, {"message": "TOO_MANY_EXPORTS"})  # fmt: skip


async def test_a_node_that_fails_midway_cuts_the_file_off(site: Site) -> None:
    site.ours.answers |= {
        "/deadletters/topics": {"topics": [row("t.dead", 2)]},
        "/log/offsets": {"queues": [{"start": 0, "end": 2}]},
        "/channel/peek": {"messages": [message(0), message(1)], "next": None},
        "/log/fetch": Response(500),
    }
    reader, writer = await asyncio.open_connection("127.0.0.1", site.running.admin.http_port)
    writer.write(b"GET /api/deadletters/t.dead/export HTTP/1.1\r\nHost: h\r\n\r\n")
    try:
        received = await reader.read()
    except ConnectionError:
        received = b""
    writer.close()
    assert not received.endswith(b"0\r\n\r\n")
    await until(lambda: "GET /log/fetch?topic=t.dead&offset=0&max_bytes=262144" in site.asked())


async def test_a_node_that_leads_in_circles(fake: StartFake, asker: Asker) -> None:
    node = await fake()
    node.answers = {
        "/log/offsets": {"queues": [{"start": 0, "end": 9}]},
        "/channel/peek": {"messages": [], "next": 0},
    }
    with pytest.raises(UpstreamError, match="the page after 0 is that of 0"):
        async for _ in lines(asker, node.address, "t.dead", "raw"):
            pass
