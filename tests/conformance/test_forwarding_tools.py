"""nsq_to_http and nsq_to_nsq when things go wrong: nothing is lost, and they end when told to.

The endpoint fails, hangs, ends in the middle of an answer; a destination goes away and comes back.
"""

from __future__ import annotations

import os
import signal
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import (
    Request,
    Sink,
    Tool,
    bodies_in,
    channel,
    create,
    publish,
    running,
    serving,
    wait_until,
)

SOON = ("--consumer-opt=default_requeue_delay,10ms", "--consumer-opt=backoff_multiplier,10ms")
"""What failed comes again at once."""


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


def bodies(count: int) -> list[bytes]:
    return [b"message %06d" % number for number in range(count)]


def wait_until_empty(nsqd: Daemon, topic: str, tool: Tool) -> None:
    """Until every message of the channel is finished."""

    def empty() -> bool:
        now = channel(nsqd, topic, "c")
        return not (now["depth"] or now["in_flight_count"] or now["deferred_count"])

    wait_until(empty, lambda: f"{channel(nsqd, topic, 'c')}\n{tool.said()}")


def to_http(nsqd: Daemon, topic: str, *flags: str) -> list[str]:
    return [f"--topic={topic}", "--channel=c", f"--nsqd-tcp-address={nsqd.tcp}", *flags]


def to_nsq(nsqd: Daemon, topic: str, *destinations: Daemon) -> list[str]:
    addresses = [f"--destination-nsqd-tcp-address={each.tcp}" for each in destinations]
    return [*to_http(nsqd, topic), "--destination-topic=arrived", "--status-every=0", *addresses]


# --- nsq_to_http ---------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [500, Sink.CLOSE, Sink.HALF, Sink.HANG])
def test_what_an_endpoint_fails_at_arrives_later(
    nsqd: Daemon, tmp_path: Path, trouble: int | str
) -> None:
    topic = f"trouble-{trouble}"
    sent = bodies(40)
    failing = iter([True] * 6)
    patience = "300ms" if trouble == Sink.HANG else "30s"
    create(nsqd, topic, "c")
    publish(nsqd, topic, sent)
    with serving(lambda request: trouble if next(failing, False) else 200) as sink:
        flags = to_http(nsqd, topic, f"--post=http://{sink.address}/", *SOON)
        with running(
            tmp_path, "nsq_to_http", *flags, "--n=3", f"--http-client-request-timeout={patience}"
        ) as tool:
            wait_until_empty(nsqd, topic, tool)
            assert tool.stop() == 0
        assert set(sink.bodies()) == set(sent)
        assert channel(nsqd, topic, "c")["requeue_count"] >= 3
    reason = {
        500: "(got status code 500)",
        Sink.CLOSE: "EOF)",
        Sink.HALF: "unexpected EOF)",
        Sink.HANG: "(Client.Timeout exceeded while awaiting headers))",
    }[trouble]
    assert f"{reason} for msg" in tool.said()
    assert "backing off for 20ms (backoff level 1), setting all to RDY 0" in tool.said()
    assert "Traceback" not in tool.said()


def test_connections_are_kept(nsqd: Daemon, tmp_path: Path) -> None:
    create(nsqd, "kept", "c")
    publish(nsqd, "kept", bodies(200))
    with serving() as sink:
        flags = to_http(nsqd, "kept", f"--post=http://{sink.address}/", "--n=4")
        with running(tmp_path, "nsq_to_http", *flags) as tool:
            wait_until_empty(nsqd, "kept", tool)
            assert tool.stop() == 0
        assert len(sink.requests) == 200
        assert sink.connections <= 4


def test_no_more_requests_at_once_than_allowed(nsqd: Daemon, tmp_path: Path) -> None:
    create(nsqd, "crowd", "c")
    publish(nsqd, "crowd", bodies(60))
    under_way, most = 0, 0
    lock = threading.Lock()
    busy = threading.Event()

    def answer(request: Request) -> int:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            if under_way == 5:
                busy.set()
        busy.wait(60)
        with lock:
            under_way -= 1
        return 200

    with serving(answer) as sink:
        patience = "--http-client-request-timeout=120s"
        flags = to_http(nsqd, "crowd", f"--post=http://{sink.address}/", "--n=5", patience)
        with running(tmp_path, "nsq_to_http", *flags) as tool:
            wait_until_empty(nsqd, "crowd", tool)
    assert most == 5


def test_term_while_requests_are_under_way(nsqd: Daemon, tmp_path: Path) -> None:
    """They are waited for, and their messages finished; nobody else begins."""
    create(nsqd, "under-way", "c")
    publish(nsqd, "under-way", bodies(50))
    asked = threading.Semaphore(0)
    go_on = threading.Event()

    def answer(request: Request) -> int:
        asked.release()
        go_on.wait(60)
        return 200

    with serving(answer) as sink:
        patience = "--http-client-request-timeout=120s"
        flags = to_http(nsqd, "under-way", f"--post=http://{sink.address}/", "--n=3", patience)
        with running(tmp_path, "nsq_to_http", *flags) as tool:
            for _ in range(3):
                assert asked.acquire(timeout=60)
            tool.process.terminate()
            tool.wait_until_said("stopping")
            go_on.set()
            assert tool.wait() == 0
        now = channel(nsqd, "under-way", "c")
        assert now["in_flight_count"] == now["timeout_count"] == 0
        assert now["depth"] + now["deferred_count"] == 50 - len(sink.requests)


def test_term_while_an_endpoint_hangs(nsqd: Daemon, tmp_path: Path) -> None:
    """The request times out, and its message is for the next."""
    create(nsqd, "hangs", "c")
    publish(nsqd, "hangs", bodies(1))
    with serving(Sink.HANG) as sink:
        flags = to_http(nsqd, "hangs", f"--post=http://{sink.address}/")
        with running(tmp_path, "nsq_to_http", *flags, "--http-client-request-timeout=1s") as tool:
            wait_until(lambda: len(sink.requests) == 1, tool.said)
            assert tool.stop() == 0
    now = channel(nsqd, "hangs", "c")
    assert (now["in_flight_count"], now["depth"] + now["deferred_count"]) == (0, 1)


def test_one_of_two_endpoints_is_dead(nsqd: Daemon, tmp_path: Path) -> None:
    """A hostpool leaves it alone after its first failure."""
    sent = bodies(30)
    create(nsqd, "half-dead", "c")
    publish(nsqd, "half-dead", sent)
    with serving(500) as dead, serving() as sink:
        posts = [f"--post=http://{each.address}/" for each in (dead, sink)]
        flags = to_http(nsqd, "half-dead", *posts, *SOON, "--n=1")
        with running(tmp_path, "nsq_to_http", *flags) as tool:
            wait_until_empty(nsqd, "half-dead", tool)
            assert tool.stop() == 0
        assert len(dead.requests) == 1
        assert sorted(sink.bodies()) == sent


def test_https(nsqd: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint must show a certificate that this system trusts."""
    authority = trustme.CA()
    trusted = tmp_path / "trusted.pem"
    authority.cert_pem.write_to_path(str(trusted))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    create(nsqd, "secure", "c")
    publish(nsqd, "secure", bodies(3))
    with serving() as sink:
        sink.secure(tls)
        flags = to_http(nsqd, "secure", f"--post=https://{sink.address}/", *SOON)
        with running(tmp_path, "nsq_to_http", *flags) as tool:
            tool.wait_until_said(
                f'Post "https://{sink.address}/": tls: failed to verify certificate:'
                " x509: certificate signed by unknown authority"
            )
            assert tool.stop() == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        with running(tmp_path, "nsq_to_http", *flags) as tool:
            wait_until_empty(nsqd, "secure", tool)
            assert tool.stop() == 0
        assert sorted(sink.bodies()) == bodies(3)


# --- nsq_to_nsq ----------------------------------------------------------------------------------


def test_a_destination_that_is_killed_under_load(nsqd: Daemon, tmp_path: Path) -> None:
    """Every message arrives at least once, whatever was under way."""
    sent = bodies(20_000)
    create(nsqd, "load", "c")
    with run_nsqd() as destination:
        create(destination, "arrived", "look")
        flags = [*to_nsq(nsqd, "load", destination), *SOON]
        with running(tmp_path, "nsq_to_nsq", *flags) as tool:
            for first in range(0, 20_000, 10_000):
                publish(nsqd, "load", sent[first : first + 9990])
                wait_until(lambda: channel(nsqd, "load", "c")["depth"] < 8000, tool.said)
                # Some is under way when it is killed, even if all of this was passed on meanwhile.
                os.kill(destination.pid, signal.SIGSTOP)
                publish(nsqd, "load", sent[first + 9990 : first + 10_000])
                wait_until(lambda: channel(nsqd, "load", "c")["in_flight_count"] > 0, tool.said)
                destination.kill()
                destination.start()
                wait_until_empty(nsqd, "load", tool)
            assert tool.stop() == 0
        depth = channel(destination, "arrived", "look")["depth"]
        found = bodies_in(destination, "arrived", "look", depth)
    assert set(found) == set(sent)
    assert tool.said().count("exiting backoff") >= 1


def test_a_destination_that_goes_away_while_another_stays(nsqd: Daemon, tmp_path: Path) -> None:
    sent = bodies(2000)
    create(nsqd, "goes", "c")
    with run_nsqd() as going, run_nsqd() as staying:
        for daemon in (going, staying):
            create(daemon, "arrived", "look")
        flags = [*to_nsq(nsqd, "goes", going, staying), *SOON]
        with running(tmp_path, "nsq_to_nsq", *flags) as tool:
            publish(nsqd, "goes", sent[:1000])
            wait_until(lambda: _count(going) > 0 and _count(staying) > 0, tool.said)
            wait_until_empty(nsqd, "goes", tool)
            before = bodies_in(going, "arrived", "look", _count(going))
            going.kill()
            publish(nsqd, "goes", sent[1000:])
            wait_until_empty(nsqd, "goes", tool)
            assert tool.stop() == 0
        found = bodies_in(staying, "arrived", "look", _count(staying))
        going.start()
    assert "connection refused) for msg" in tool.said()
    assert set(before) | set(found) == set(sent)
    assert set(found) >= set(sent[1000:])


def test_one_message_too_big_for_the_destination(nsqd: Daemon, tmp_path: Path) -> None:
    """It alone is left behind; the others, sent with it in one command, arrive once."""
    sent = bodies(50)
    big = b"x" * 2000
    create(nsqd, "too-big", "c")
    publish(nsqd, "too-big", [*sent[:20], big, *sent[20:]])
    with run_nsqd("--max-msg-size=1000") as destination:
        create(destination, "arrived", "look")
        flags = to_nsq(nsqd, "too-big", destination)
        with running(tmp_path, "nsq_to_nsq", *flags) as tool:
            wait_until(lambda: _count(destination) >= 50, tool.said)
            tool.wait_until_said("Handler returned error (E_BAD_MESSAGE")
            wait_until(lambda: channel(nsqd, "too-big", "c")["deferred_count"] == 1, tool.said)
            assert tool.stop() == 0
        assert sorted(bodies_in(destination, "arrived", "look", _count(destination))) == sent
    now = channel(nsqd, "too-big", "c")
    assert (now["depth"], now["deferred_count"], now["requeue_count"]) == (0, 1, 1)
    assert tool.said().count("Handler returned error") == 1


def test_more_than_one_command_holds(nsqd: Daemon, tmp_path: Path) -> None:
    """What came together may be more than a node takes at once."""
    sent = [b"%d" % number * 300_000 for number in range(10, 40)]
    create(nsqd, "large", "c")
    for body in sent:
        publish(nsqd, "large", [body])
    with run_nsqd() as destination:
        create(destination, "arrived", "look")
        with running(tmp_path, "nsq_to_nsq", *to_nsq(nsqd, "large", destination)) as tool:
            wait_until_empty(nsqd, "large", tool)
            assert tool.stop() == 0
        assert "ERR" not in tool.said()
        assert sorted(bodies_in(destination, "arrived", "look", 30)) == sorted(sent)


def test_term_in_the_middle(nsqd: Daemon, tmp_path: Path) -> None:
    """What was taken is either passed on and finished, or still there: nothing twice."""
    sent = bodies(30_000)
    create(nsqd, "middle", "c")
    publish(nsqd, "middle", sent)
    with run_nsqd() as destination:
        create(destination, "arrived", "look")
        with running(tmp_path, "nsq_to_nsq", *to_nsq(nsqd, "middle", destination)) as tool:
            wait_until(lambda: _count(destination) > 1000, tool.said)
            assert tool.stop() == 0
        now = channel(nsqd, "middle", "c")
        assert now["in_flight_count"] == 0
        left = now["depth"] + now["deferred_count"]
        assert left + _count(destination) == len(sent)
        with running(tmp_path, "nsq_to_nsq", *to_nsq(nsqd, "middle", destination)) as tool:
            wait_until_empty(nsqd, "middle", tool)
        assert sorted(bodies_in(destination, "arrived", "look", len(sent))) == sent


def test_topics_share_the_destinations(nsqd: Daemon, tmp_path: Path) -> None:
    with run_nsqd() as destination:
        for topic in ("left", "right"):
            create(nsqd, topic, "c")
            create(destination, topic, "look")
            publish(nsqd, topic, [topic.encode()])
        flags = ["--topic=left", "--topic=right", "--channel=c", f"--nsqd-tcp-address={nsqd.tcp}"]
        with running(
            tmp_path, "nsq_to_nsq", *flags, f"--destination-nsqd-tcp-address={destination.tcp}"
        ) as tool:
            for topic in ("left", "right"):
                wait_until_empty(nsqd, topic, tool)
                assert bodies_in(destination, topic, "look", 1) == [topic.encode()]
            assert tool.stop() == 0
    said = tool.said()
    assert "INF    2 [left/c]" in said
    assert "INF    3 [right/c]" in said
    assert f"INF    1 ({destination.tcp}) connecting to nsqd" in said


def _count(nsqd: Daemon) -> int:
    found: dict[str, Any] = channel(nsqd, "arrived", "look")
    return int(found.get("message_count", 0))
