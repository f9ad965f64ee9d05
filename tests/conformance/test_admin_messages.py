"""nsqadmin's pages of messages, deferred messages and dead letters, over real nodes.

Two nodes of ours, a node that knows none of it (as Go's nsqd), a broker with RocketMQ's letters.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.daemons import Daemon, run_mqbroker, run_nsqadmin, run_nsqd, run_nsqlookupd
from tests.unit.cli.nodes_at_work import ask, consume, depths, kill_letters, make, publish
from tools.harness.patience import PATIENT
from tools.harness.rocketmq.raw_client import RawClient
from tools.replay.admin_scenes import WAIT_S, eventually

LETTERS = [b"first", b"\xff\xfe", b"x" * 70_000]
STRANGER = {"version": "1.3.0", "broadcast_address": "127.0.0.1", "hostname": "go", "tcp_port": 1}


class Site:
    """Running daemons and an nsqadmin over them, where only alice may change things."""

    def __init__(self, stack: ExitStack) -> None:
        lookupd = stack.enter_context(run_nsqlookupd())
        told = f"--lookupd-tcp-address={lookupd.tcp}"
        self.nsqds = [stack.enter_context(run_nsqd(told, *PATIENT)) for _ in range(2)]
        flags = (f"--lookupd-http-address={lookupd.http}", "--admin-user=alice", *PATIENT)
        self.admin = stack.enter_context(run_nsqadmin(*flags))
        eventually("both at nsqlookupd", lambda: len(self.get("/api/nodes")["nodes"]) == 2)

    def get(self, path: str) -> Any:
        """The JSON of an answer that must be 200."""
        status, answer = asked(self.admin, path)
        assert status == 200, answer
        return answer

    def post(self, path: str, body: Any, user: str = "alice") -> tuple[int, Any]:
        """Status and JSON."""
        return asked(self.admin, path, body, user)


def asked(
    admin: Daemon, path: str, body: dict[str, Any] | None = None, user: str = ""
) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-Forwarded-User": user}
    request = urllib.request.Request(f"http://{admin.http}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(stack)


def test_messages_of_a_topic_and_of_a_channel(site: Site) -> None:
    nsqd = site.nsqds[0]
    make(nsqd, "seen", "c")
    publish(nsqd, "seen", [b"one", b"two", b"<b>three</b>", b"y" * 70_000])
    assert consume(nsqd, "seen", "c", 1) == [b"one"]
    where = f"topic=seen&node={nsqd.http}"
    page = site.get(f"/api/messages?{where}&limit=2")
    assert (page["node"], page["topic"], page["next"]) == (nsqd.http, "seen", 2)
    assert [each["body"] for each in page["messages"]] == ["one", "two"]
    rest = site.get(f"/api/messages?{where}&from={page['next']}&preview=65536")
    assert rest["messages"][0]["body"] == "<b>three</b>"
    assert len(rest["messages"][1]["body"]) == 65536
    assert rest["messages"][1]["truncated"]
    assert rest["next"] is None

    def waiting() -> bool:
        channel = site.get(f"/api/messages?{where}&channel=c&preview=0")
        return [each["offset"] for each in channel["messages"]] == [1, 2, 3]

    eventually("what the channel still needs", waiting)
    (newest,) = site.get(f"/api/messages?{where}&channel=c&from=newest&limit=1")["messages"]
    assert newest["offset"] == 3


def defers(nsqd: Daemon, topic: str, channel: str) -> bool:
    """Whether a deferral is listed; the channel is empty afterwards."""
    where = f"topic={topic}&channel={channel}"
    ask(nsqd, "POST", f"/pub?topic={topic}&defer=900000", b"probe")
    count: int = ask(nsqd, "GET", f"/channel/deferred?{where}")["count"]
    ask(nsqd, "POST", f"/channel/empty?{where}")
    return count > 0


def test_deferred_messages_are_cancelled_and_released(site: Site) -> None:
    nsqd = site.nsqds[0]
    make(nsqd, "later", "c")
    # What comes while a topic starts is backlog, in which deferrals are not looked for.
    eventually("the topic has started", lambda: defers(nsqd, "later", "c"))
    for quarters in (3, 1, 2):
        ask(nsqd, "POST", f"/pub?topic=later&defer={quarters * 900_000}", b"in %d" % quarters)
    where = {"topic": "later", "channel": "c", "node": nsqd.http}
    query = f"topic=later&channel=c&node={nsqd.http}"
    page = site.get(f"/api/deferred?{query}&limit=2")
    assert (page["count"], [each["body"] for each in page["messages"]]) == (3, ["in 1", "in 2"])
    (last,) = site.get(f"/api/deferred?{query}&from={page['next']}")["messages"]
    assert last["body"] == "in 3"
    assert 0 < last["remaining_ms"] <= 3 * 900_000
    first = page["messages"][0]["id"]
    wish = {"action": "cancel", **where, "ids": [first]}
    assert site.post("/api/deferred", wish, "eve") == (403, {"message": "FORBIDDEN"})
    expected = {"cancelled": 1, "not_found": [], "message": ""}
    assert site.post("/api/deferred", wish) == (200, expected)
    assert site.post("/api/deferred", wish)[1]["not_found"] == [first]
    released = site.post("/api/deferred", {"action": "release", **where, "all": True})
    assert released == (200, {"released": 2, "not_found": [], "message": ""})
    assert sorted(consume(nsqd, "later", "c", 2)) == [b"in 2", b"in 3"]


def test_dead_letters_of_two_nodes_are_listed_sent_again_and_exported(site: Site) -> None:
    path = "/api/deadletters/orders.dead"
    for nsqd in site.nsqds:
        kill_letters(nsqd, "orders", "bill", LETTERS)

    def row() -> Any:
        rows = site.get("/api/deadletters")["topics"]
        return next((each for each in rows if each["topic"] == "orders.dead"), None)

    found = row()
    assert (found["letters"], found["is_rocketmq"]) == (6, False)
    assert sorted((each["node"], each["letters"]) for each in found["nodes"]) == sorted(
        (nsqd.http, 3) for nsqd in site.nsqds
    )
    first, second = site.nsqds
    letters = site.get(f"{path}?node={first.http}")["messages"]
    assert letters[0]["origin"]["topic"] == "orders"
    assert letters[0]["origin"]["channel"] == "bill"
    assert letters[1]["body_base64"] == "//4="
    lines = exported(site, path)
    assert [json.loads(line)["node"] for line in lines] == [
        each["node"] for each in found["nodes"] for _ in range(3)
    ]
    assert len(json.loads(lines[2])["body"]) == 70_000
    assert exported(site, path, f"?form=raw&node={second.http}") == LETTERS

    wish = {"action": "resend", "node": first.http, "ids": [letters[1]["id"]]}
    assert site.post(path, wish, "eve") == (403, {"message": "FORBIDDEN"})
    expected = {"sent": 1, "left": 0, "not_found": [], "message": ""}
    assert site.post(path, wish) == (200, expected)
    assert consume(first, "orders", "bill", 1) == [LETTERS[1]]
    shown = site.get(f"{path}?node={first.http}")["messages"]
    assert [each["id"] for each in shown] == [letters[0]["id"], letters[2]["id"]]
    assert site.post(path, {"action": "resend", "all": True})[1]["sent"] == 5
    assert row()["letters"] == 0
    assert exported(site, path) == []
    assert depths(second, "orders") == {"bill": 3}
    assert consume(second, "orders", "bill", 3) == LETTERS


def exported(site: Site, path: str, query: str = "") -> list[bytes]:
    """The lines of a download."""
    with urllib.request.urlopen(f"http://{site.admin.http}{path}/export{query}") as answer:
        name = "orders.dead.txt" if "raw" in query else "orders.dead.jsonl"
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        lines: list[bytes] = answer.read().splitlines()
    return lines


def test_unknown_nodes_topics_and_channels(site: Site) -> None:
    node, other = site.nsqds[0].http, "127.0.0.1:1"
    for path, code in (
        (f"/api/messages?topic=seen&node={other}", "NODE_NOT_FOUND"),
        (f"/api/messages?topic=nothing&node={node}", "TOPIC_NOT_FOUND"),
        (f"/api/messages?topic=seen&channel=no&node={node}", "CHANNEL_NOT_FOUND"),
        (f"/api/deferred?topic=seen&channel=c&node={other}", "NODE_NOT_FOUND"),
        (f"/api/deadletters/orders.dead?node={other}", "NODE_NOT_FOUND"),
        (f"/api/deadletters/orders.dead/export?node={other}", "NODE_NOT_FOUND"),
        ("/api/deadletters/nothing.dead/export", "TOPIC_NOT_FOUND"),
    ):
        assert asked(site.admin, path) == (404, {"message": code})


class Stranger(BaseHTTPRequestHandler):
    """An nsqd of before: it has /info and /stats, and answers NOT_FOUND to all else."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        known = {"/info": {**STRANGER, "http_port": self.server.server_port},  # type: ignore[attr-defined]
                 "/stats": {"topics": [{"topic_name": "t", "channels": []}]}}  # fmt: skip
        body = json.dumps(known.get(path, {"message": "NOT_FOUND"})).encode()
        self.send_response(200 if path in known else 404)
        self.send_header("X-NSQ-Content-Type", "nsq; version=1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


def test_a_node_that_offers_none_of_it() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    node = f"127.0.0.1:{server.server_port}"
    not_offered = (501, {"message": "NOT_OFFERED"})
    try:
        with run_nsqadmin(f"--nsqd-http-address={node}", *PATIENT) as admin:
            for path in (
                f"/api/messages?topic=t&node={node}",
                f"/api/messages?topic=t&channel=c&node={node}",
                f"/api/deferred?topic=t&channel=c&node={node}",
                f"/api/deadletters/t.dead?node={node}",
                f"/api/deadletters/t.dead/export?node={node}",
            ):
                assert asked(admin, path) == not_offered, path
            where = {"topic": "t", "channel": "c", "node": node, "all": True}
            assert asked(admin, "/api/deferred", {"action": "cancel", **where}) == not_offered
            wish = {"action": "resend", "node": node, "all": True}
            assert asked(admin, "/api/deadletters/t.dead", wish) == not_offered
            assert asked(admin, "/api/deadletters") == (200, {"topics": [], "message": ""})
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_rocketmqs_letters_are_shown_and_exported_and_not_sent() -> None:
    name = "%DLQ%group"
    with (
        run_mqbroker() as broker,
        run_nsqadmin(f"--nsqd-http-address={broker.http}", *PATIENT) as admin,
    ):
        client = RawClient(broker.port)
        made = client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic=name, defaultTopic="TBW102",
            readQueueNums=1, writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG", order="false",
        )  # fmt: skip
        sent = client.ask(
            RequestCode.SEND_MESSAGE, b"a dead body", producerGroup="PG", topic=name,
            defaultTopic="TBW102", defaultTopicQueueNums=1, queueId=0, sysFlag=0, bornTimestamp=1,
            flag=0, properties=properties.join({}), reconsumeTimes=0, unitMode="false",
        )  # fmt: skip
        assert (made.code, sent.code) == (ResponseCode.SUCCESS, ResponseCode.SUCCESS)
        client.close()
        (node,) = asked(admin, "/api/nodes")[1]["nodes"]
        where = f"node={node['broadcast_address']}:{node['http_port']}"
        (row,) = asked(admin, "/api/deadletters")[1]["topics"]
        assert (row["topic"], row["letters"], row["is_rocketmq"]) == (name, 1, True)
        path = f"/api/deadletters/{quote(name)}"
        (letter,) = asked(admin, f"{path}?{where}")[1]["messages"]
        assert letter["body"] == "a dead body"
        assert asked(admin, f"/api/messages?topic={quote(name)}&{where}")[1]["messages"] == [letter]
        status, line = asked(admin, f"{path}/export?{where}")
        assert (status, line["body"], line["topic"]) == (200, "a dead body", name)
        refused = asked(admin, path, {"action": "resend", "all": True})
        assert refused == (400, {"message": "ROCKETMQ_NOT_RESENDABLE"})
