"""nsqadmin over real clusters: our daemons, and mixed with Go's where PENSTOCK_GO_NSQ names them.

`PENSTOCK_GO_NSQ` is a directory with nsqd, nsqlookupd and nsqadmin.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.testing.daemons import Daemon, run_nsqadmin, run_nsqd, run_nsqlookupd
from tools.harness.patience import PATIENT
from tools.replay.admin_scenes import WAIT_S, ask, eventually
from tools.replay.replay_admin import difference

GO = os.environ.get("PENSTOCK_GO_NSQ", "")


class Mix(NamedTuple):
    """Which of the daemons are Go's; None: ours."""

    lookupds: tuple[str | None, ...]
    nsqds: tuple[str | None, ...]


def _go(name: str) -> str:
    return str(Path(GO) / name)


MIXES = {"ours": Mix((None,), (None, None))}
if GO:
    MIXES["two of each"] = Mix((None, _go("nsqlookupd")), (None, _go("nsqd"), None))
    MIXES["their nsqlookupd"] = Mix((_go("nsqlookupd"),), (None, None))


class Site:
    """Running daemons and an nsqadmin over them."""

    def __init__(self, stack: ExitStack, mix: Mix) -> None:
        self.lookupds = [
            stack.enter_context(run_nsqlookupd(program=each or _ours("nsqlookupd")))
            for each in mix.lookupds
        ]
        told = [f"--lookupd-tcp-address={each.tcp}" for each in self.lookupds]
        self.nsqds = [
            stack.enter_context(run_nsqd(*told, *PATIENT, program=each or _ours("nsqd")))
            for each in mix.nsqds
        ]
        self.flags = [f"--lookupd-http-address={each.http}" for each in self.lookupds]
        self.admin = stack.enter_context(
            run_nsqadmin(*self.flags, *PATIENT, "--history-interval=1s", program=_ours("nsqadmin"))
        )
        count = len(self.nsqds)
        eventually("all at nsqlookupd", lambda: len(self.get("/api/nodes")["nodes"]) == count)

    def get(self, path: str, admin: Daemon | None = None) -> Any:
        return ask("GET", f"http://{(admin or self.admin).http}{path}")

    def change(self, method: str, path: str, **body: str) -> str:
        """The message of a change that is done."""
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"http://{self.admin.http}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            message: str = json.load(answer)["message"]
        return message

    def publish(self, topic: str) -> None:
        """One message to each node, which has the channels of nsqlookupd then."""
        for nsqd in self.nsqds:
            ask("POST", f"http://{nsqd.http}/pub?topic={topic}", b"x")
        eventually(f"{topic} everywhere", lambda: self.nodes_of(topic) == len(self.nsqds))

    def nodes_of(self, topic: str) -> int:
        """How many nodes nsqadmin knows to have it."""
        try:
            return len(self.get(f"/api/topics/{topic}")["nodes"])
        except urllib.error.HTTPError:
            return 0


def _ours(name: str) -> list[str]:
    return [sys.executable, "-m", f"penstock.cli.{name}"]


@pytest.fixture(scope="module", params=MIXES)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(stack, MIXES[request.param])


def test_the_life_of_a_topic(site: Site) -> None:
    count = len(site.nsqds)
    assert site.change("POST", "/api/topics", topic="life", channel="c") == ""
    assert site.get("/api/topics?inactive=true")["topics"] == {"life": ["c"]}
    site.publish("life")
    found = site.get("/api/topics/life/c")
    assert (found["depth"], found["message"]) == (count, "")
    for action, paused in (("pause", True), ("unpause", False)):
        assert site.change("POST", "/api/topics/life", action=action) == ""
        assert site.change("POST", "/api/topics/life/c", action=action) == ""
        found = site.get("/api/topics/life")
        assert [found["paused"], found["channels"][0]["paused"]] == [paused, paused]
    assert site.change("POST", "/api/topics/life/c", action="empty") == ""
    assert site.get("/api/topics/life/c")["depth"] == 0
    node = site.get("/api/topics/life")["nodes"][0]["node"]
    assert site.change("DELETE", f"/api/nodes/{node}", topic="life") == ""
    eventually(
        "the node has forgotten it", lambda: len(site.get("/api/topics/life")["nodes"]) == count - 1
    )
    assert site.change("DELETE", "/api/topics/life/c") == ""
    assert site.get("/api/topics/life")["channels"] == []
    assert site.change("DELETE", "/api/topics/life") == ""
    eventually("it is gone", lambda: "life" not in (site.get("/api/topics")["topics"] or ()))


def test_everything_is_seen_in_every_mix(site: Site) -> None:
    site.publish("seen%23ephemeral")
    # Nodes do not ask for ephemeral channels, so it is created where the topic is.
    site.change("POST", "/api/topics", topic="seen#ephemeral", channel="c#ephemeral")
    path = "/api/topics/seen%23ephemeral/c%23ephemeral"
    eventually("the messages in the channel", lambda: site.get(path)["depth"] == len(site.nsqds))
    nodes = site.get("/api/nodes")["nodes"]
    assert {each["version"] for each in nodes} == {"1.3.0"}
    assert {len(each["remote_addresses"]) for each in nodes} == {len(site.lookupds)}
    counter = site.get("/api/counter")["stats"]
    for each in nodes:
        node = f"{each['broadcast_address']}:{each['http_port']}"
        assert counter[f"seen#ephemeral:c#ephemeral:{node}"]["message_count"] == 1
        assert site.get(f"/api/nodes/{node}")["total_messages"] >= 1

    def is_sampled() -> bool:
        try:
            found = site.get("/api/history?topic=seen%23ephemeral&channel=c%23ephemeral")
        except urllib.error.HTTPError:
            return False
        return bool(found["depth"][-1] == len(site.nsqds))

    eventually("its history", is_sampled)


def test_a_dead_node_is_a_warning(site: Site) -> None:
    site.change("POST", "/api/topics", topic="dead", channel="c")
    site.publish("dead")
    victim = site.nsqds[-1]
    os.kill(victim.pid, signal.SIGSTOP)  # it hangs, and nsqlookupd still tells of it
    try:
        with run_nsqadmin(*site.flags, "--http-client-request-timeout=1s") as admin:
            found: dict[str, Any] = {}

            def others_answered() -> bool:  # which they may be kept from for a second, too
                found.update(site.get("/api/topics/dead", admin))
                return len(found["nodes"]) == len(site.nsqds) - 1

            eventually("all but the dead one", others_answered)
            assert found["message"].startswith(f'WARNING: Get "http://{victim.http}/stats?')
            assert "context deadline exceeded" in found["message"]
    finally:
        os.kill(victim.pid, signal.SIGCONT)


@pytest.mark.skipif(not GO, reason="PENSTOCK_GO_NSQ names no programs of Go")
def test_theirs_shows_the_same_of_our_daemons(site: Site) -> None:
    site.change("POST", "/api/topics", topic="same", channel="c")
    site.publish("same")
    with run_nsqadmin(*site.flags, program=_go("nsqadmin")) as theirs:
        node = site.get("/api/nodes")["nodes"][0]
        address = f"{node['broadcast_address']}:{node['http_port']}"
        for path in ("/api/topics", "/api/topics/same/c", "/api/nodes", f"/api/nodes/{address}",
                     "/api/counter", "/api/topics?inactive=true"):  # fmt: skip
            expected, found = site.get(path, theirs), site.get(path)
            for nodes in (expected, found):  # by the nsqlookupd that answered first
                for each in nodes.get("nodes") or ():
                    if each.get("remote_addresses"):
                        each["remote_addresses"].sort()
                        each["remote_address"] = ""
            assert difference(expected, found) == "", path
