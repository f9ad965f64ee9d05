"""A follower that becomes primary, the hooks it runs, and how nodes start."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.core.units import MILLISECOND
from penstock.net.address import join_host_port
from penstock.node.ports import Ports
from penstock.nsq.client import aio
from penstock.nsq.client.config import Config
from penstock.nsq.client.lookup import lookup
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.replication import peer, starting
from penstock.replication.hooks import LINES_MAX, HookError, Hooks
from penstock.replication.peer import CONNECT_S
from penstock.replication.secret import Secret
from penstock.replication.starting import decide, standby_for
from penstock.replication.state import ReplicationState, Role, write_state
from penstock.storage.files.disk import OsDisk
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.copies import ask, publish, until, until_copied
from tests.forwarding import wait_until
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Client, Running, Start, options
from tests.unit.cli.nodes_at_work import Commands
from tools.harness.ports import unused_address

HOUR_MS = 3_600_000
DEAD = "/deadletters?topic=t.dead&limit=10&from=oldest"


async def connect(daemon: Daemon) -> Client:
    client = Client(*await asyncio.open_connection("127.0.0.1", daemon.tcp_port))
    client.send(MAGIC_V2)
    return client


def promote(new: Daemon, epoch: int = 2) -> None:
    status, answer = ask(new, "POST", "/replication/promote")
    assert (status, answer.get("epoch")) == (200, epoch), answer
    until(new, role="primary", epoch=epoch)


def found_by(lookupd: Daemon, topic: str) -> list[int]:
    """The ports of the nodes that have a topic."""
    return [each.tcp_port for each in lookup([lookupd.http], topic, TIMEOUT_S)]


def log_id(node: Daemon, topic: str) -> str:
    _, answer = ask(node, "GET", f"/log/offsets?topic={topic}")
    return str(answer["queues"][0]["log"])


def test_a_promoted_copy_begins_an_epoch_of_each_log_which_its_copies_take_over(
    tmp_path: Path,
) -> None:
    with run_nsqd() as old, run_nsqd(f"--follow={old.http}") as new:
        publish(old, "t", "1", "2")
        until_copied(old, new, "t")
        before = log_id(old, "t")
        assert log_id(new, "t") == before
        promote(new)
        begun = log_id(new, "t")
        assert re.fullmatch(rf"{before}~2\.[0-9a-f]{{8}}", begun)
        publish(new, "u", "1")
        assert len(log_id(new, "u")) == 16
        with run_nsqd(f"--follow={new.http}", data_path=str(tmp_path / "third")) as third:
            until_copied(new, third, "u")
            wait_until(lambda: log_id(third, "t") == begun, lambda: log_id(third, "t"))


class Reading:
    """Our client, which knows no node but nsqlookupd, and finishes all it gets."""

    def __init__(self, lookupd: Daemon) -> None:
        self.bodies: list[bytes] = []
        config = Config(lookupd_poll_interval=0.05)
        self._consumer = aio.Consumer("t", "c", lookupd_http_addresses=[lookupd.http],
                                      max_in_flight=10, config=config)  # fmt: skip

    async def run(self) -> None:
        async with self._consumer:
            async for message in self._consumer:
                self.bodies.append(message.body)
                message.finish()

    async def until(self, *bodies: str) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not {each.encode() for each in bodies} <= set(self.bodies):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_consumers_find_the_new_primary_by_nsqlookupd_and_notice_nothing_but_a_pause() -> (
    None
):
    with run_nsqlookupd() as lookupd:
        register = f"--lookupd-tcp-address={lookupd.tcp}"
        with (
            run_nsqd(register) as old,
            run_nsqd(register, f"--follow={old.http}") as new,
        ):
            publish(old, "t", "1")
            reading = Reading(lookupd)
            task = asyncio.create_task(reading.run())
            await reading.until("1")
            await asyncio.to_thread(until_copied, old, new, "t")
            # A follower registers once it is promoted; an nsqlookupd that is late is left, and told
            # everything again.
            async with asyncio.timeout(TIMEOUT_S):
                while found_by(lookupd, "t") != [old.tcp_port]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            old.kill()
            await asyncio.to_thread(promote, new)
            publish(new, "t", "2")
            await reading.until("2")
            # And back again, by a change-over.
            old.flags.append(f"--follow={new.http}")
            await asyncio.to_thread(old.start)
            await asyncio.to_thread(until, old, role="follower", whole=True, epoch=2)
            publish(new, "t", "3")
            await reading.until("3")
            await asyncio.to_thread(promote, old, 3)
            publish(old, "t", "4")
            await reading.until("4")
            assert not task.done()
            assert sorted(set(reading.bodies)) == [b"1", b"2", b"3", b"4"]
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def test_a_follower_starts_from_a_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    penstock = Commands(capsys)
    copied = tmp_path / "copy"
    with run_nsqd("--max-bytes-per-file=4096") as old:
        publish(old, "t", *[f"{number:0500}" for number in range(40)])
        publish(old, "u", "1")
        assert not penstock(
            "backup", str(tmp_path / "backup"), "--data-path", str(old.data_path)
        ).code
        assert not penstock("restore", str(tmp_path / "backup"), "--data-path", str(copied)).code
        first = min(each for each in copied.rglob("*") if each.stat().st_size > 2048)
        before = first.stat()
        publish(old, "t", "later")
        ask(old, "POST", "/topic/delete?topic=u")
        with run_nsqd(f"--follow={old.http}", data_path=copied) as new:
            copy = until(new, whole=True, error=None)
            assert copy["put_aside"] == {"u": 1}
            fetch = "/log/fetch?topic=t&offset=0&max_bytes=60000000"
            assert ask(new, "GET", fetch) == ask(old, "GET", fetch)
            assert first.stat().st_ino == before.st_ino, "it was copied again"
            assert ask(new, "GET", "/log/offsets?topic=u")[0] == 404
            promote(new)
            until(old, role="fenced")


async def test_requeue_counts_deferrals_and_dead_letters_are_those_of_the_old_primary() -> None:
    attempts_max = 5
    flags = (f"--max-attempts={attempts_max}",)
    with run_nsqd(*flags) as old, run_nsqd(*flags, f"--follow={old.http}") as new:
        client = await connect(old)
        publish(old, "t", "tired", "hopeless", "later")
        assert ask(old, "POST", f"/pub?topic=t&defer={HOUR_MS}", b"deferred")[0] == 200
        await client.subscribe("t")
        requeued = {b"tired": 3, b"hopeless": attempts_max, b"later": 1}
        while any(requeued.values()):
            message = await client.message()
            left = requeued[message.body]
            if left:
                requeued[message.body] -= 1
                delay = HOUR_MS if message.body == b"later" else 0
                client.send(b"REQ %b %d\n" % (message.id, delay))
            else:  # the tired one, which is to be in flight when the primary is killed
                assert message.attempts == 4
                client.send(b"RDY 2\n")
        async with asyncio.timeout(TIMEOUT_S):
            while ask(old, "GET", DEAD)[0] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.to_thread(until_copied, old, new, "t")
        await asyncio.to_thread(until_copied, old, new, "t.dead")
        old.kill()
        client.writer.close()
        await asyncio.to_thread(promote, new)
        client = await connect(new)
        await client.subscribe("t")
        message = await client.message()
        assert message.body == b"tired"
        assert message.attempts in (4, 5)  # the one in flight counts once that was saved
        client.send(b"FIN %b\n" % message.id)
        client.writer.close()
        [topic] = ask(new, "GET", "/stats?format=json&topic=t")[1]["topics"]
        [channel] = topic["channels"]
        assert (channel["depth"], channel["deferred_count"]) == (0, 2)
        [dead] = ask(new, "GET", DEAD)[1]["messages"]
        assert (dead["body"], dead["origin"]["topic"], dead["origin"]["channel"]) == (
            "hopeless", "t", "c",
        )  # fmt: skip
        assert dead["origin"]["attempts"] == attempts_max


def test_a_topic_that_lost_a_message_once_is_handed_over_with_the_others() -> None:
    with run_nsqd() as old:
        publish(old, "t", *[f"{number:0100}" for number in range(10)])
        old.kill()
        (segment,) = (old.data_path / "topics" / "t@0").glob("*.log")
        data = bytearray(segment.read_bytes())
        data[100] ^= 1
        segment.write_bytes(data)
        old.start()
        assert ask(old, "POST", "/topic/damage/accept?topic=t")[0] == 200
        with run_nsqd(f"--follow={old.http}") as new:
            until_copied(old, new, "t")
            stored = ask(new, "GET", "/log/fetch?topic=t&offset=0")
            promote(new)
            assert ask(new, "GET", "/log/fetch?topic=t&offset=0") == stored
            assert len(stored[1]) > 900


def test_a_fenced_node_with_nothing_alone_becomes_a_copy_by_itself() -> None:
    """Where its flags say that it may: it then follows whoever is primary."""
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}") as b:
        publish(a, "t", "1")
        until_copied(a, b, "t")
        promote(b)
        until(a, role="fenced")
        a.flags.append(f"--follow={b.http}")
        a.restart()
        until_copied(b, a, "t")
        promote(a, 3)
        until(b, role="follower", primary=a.http, whole=True, epoch=3)
        publish(a, "t", "2")
        until_copied(a, b, "t")


def test_other_copies_find_the_new_primary_by_the_old_one_or_by_nsqlookupd() -> None:
    with run_nsqlookupd() as lookupd:
        register = f"--lookupd-tcp-address={lookupd.tcp}"
        with (
            run_nsqd() as a,
            run_nsqd(register, f"--follow={a.http}") as b,
            run_nsqd(register, f"--follow={a.http}") as c,
        ):
            publish(a, "t", "1")
            for each in (b, c):
                until_copied(a, each, "t")
            promote(b)
            until(a, role="fenced")
            until(c, role="follower", primary=b.http, whole=True, epoch=2)
            publish(b, "t", "2")
            until_copied(b, c, "t")
            a.flags += [register, f"--follow={b.http}"]
            a.restart()
            until_copied(b, a, "t")
            b.kill()
            promote(c, 3)
            until(a, role="follower", primary=c.http, whole=True, epoch=3)
            publish(c, "t", "3")
            until_copied(c, a, "t")


# --- The operator's commands around a promotion, as processes ------------------------------------


STANDING = ReplicationState("h", 1, Role.FOLLOWER, "a:4151")


def hooks(before: str = "", after: str = "", timeout_ms: int = 30_000) -> Hooks:
    chosen = options(
        "/data", promote_before_hook=before, promote_after_hook=after,
        promote_hook_timeout=timeout_ms * MILLISECOND, broadcast_address="b",
        broadcast_tcp_port=4150, broadcast_http_port=4151,
    )  # fmt: skip
    return Hooks(chosen, Ports(chosen))


async def test_without_a_hook_nothing_is_asked() -> None:
    assert await hooks().before(STANDING, 2, {}) == 2


async def test_a_hook_gets_what_it_needs_and_may_demand_a_higher_epoch(tmp_path: Path) -> None:
    told = tmp_path / "told"
    before = f"env | grep ^PENSTOCK_ >{told}; echo epoch=4; echo epoch=7"
    assert await hooks(before).before(STANDING, 2, {"PENSTOCK_WHOLE": "true"}) == 7
    found = dict(line.split("=", 1) for line in told.read_text().splitlines())
    assert found == found | {
        "PENSTOCK_EPOCH": "2", "PENSTOCK_HISTORY": "h", "PENSTOCK_NODE": "b",
        "PENSTOCK_ADDRESS": "b:4151", "PENSTOCK_TCP_ADDRESS": "b:4150",
        "PENSTOCK_OLD_PRIMARY": "a:4151", "PENSTOCK_DATA_PATH": "/data", "PENSTOCK_WHOLE": "true",
    }  # fmt: skip
    assert await hooks("echo epoch=1").before(STANDING, 2, {}) == 2, "never a lower one"


@pytest.mark.parametrize(
    ("command", "timeout_ms", "reason"),
    [
        ("echo first; echo b holds it >&2; exit 3", 30_000, "exit code 3: b holds it$"),
        ("exit 1", 30_000, "exit code 1$"),
        ("sleep 600 & sleep 600", 100, "did not end within 0.1 s, and was killed"),
        ("exec /nowhere/hook 2>/dev/null", 30_000, "exit code 127"),
    ],
)
async def test_a_hook_that_fails_or_hangs_refuses(
    command: str, timeout_ms: int, reason: str
) -> None:
    with pytest.raises(HookError, match=f"^--promote-before-hook .*{reason}"):
        await hooks(command, timeout_ms=timeout_ms).before(STANDING, 2, {})


async def test_a_hook_that_says_too_much_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert await hooks("yes | head -c 300000").before(STANDING, 2, {}) == 2
    assert len(caplog.records) == LINES_MAX


async def test_the_hook_after_a_promotion_can_only_be_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await hooks(after="echo no address; exit 2").after(STANDING)
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == [
        "this node is primary in epoch 1, but --promote-after-hook ended with exit code 2: "
        "no address"
    ]


# --- The role in which a data path is opened -----------------------------------------------------


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is only late is waited for."""
    monkeypatch.setattr(peer, "CONNECT_S", 60.0)
    monkeypatch.setattr(starting, "ASK_S", 60.0)


async def decided(state: ReplicationState, **changes: Any) -> ReplicationState:
    found = await decide(options("/nowhere", **changes), state, "/nowhere", Secret())
    assert found is not None
    return found


@pytest.fixture
async def successor(start: Start, tmp_path: Path) -> Running:
    """A primary of history h in epoch 2."""
    (tmp_path / "successor").mkdir()
    write_state(OsDisk(), str(tmp_path / "successor"), ReplicationState("h", 2))
    return await start(data_path=tmp_path / "successor")


def address(running: Running) -> str:
    return f"127.0.0.1:{running.nsqd.ports.http}"


async def test_a_node_that_has_nothing_to_do_with_copies_starts_as_ever(tmp_path: Path) -> None:
    assert await decide(options("/nowhere"), None, "/nowhere", Secret()) is None
    assert await standby_for(options(tmp_path), lambda: None) is None


async def test_a_primary_asks_those_who_have_copied_it(successor: Running) -> None:
    state = ReplicationState("h", 1, followers=[address(successor)])
    found = await decided(state)
    assert (found.role, found.fenced_epoch, found.primary) == (
        Role.FENCED, 2, address(successor),
    )  # fmt: skip
    other = await decided(ReplicationState("other", 1, followers=[address(successor)]))
    assert other.role is Role.PRIMARY
    alone = await decided(ReplicationState("h", 1, followers=[unused_address()]))
    assert alone.role is Role.PRIMARY


@asynccontextmanager
async def told(delay_s: float = 0, **status: object) -> AsyncIterator[str]:
    """The address of a node that says this of itself."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(delay_s)
        body = json.dumps(status).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield join_host_port(*server.sockets[0].getsockname())


async def test_the_successor_is_the_one_that_takes_publishes_not_a_copy_of_it() -> None:
    gone = unused_address()
    async with (
        told(role="primary", epoch=2, history="h") as primary,
        told(role="follower", epoch=2, history="h", primary=primary) as copy,
        told(role="follower", epoch=2, history="h", primary=gone) as other,
        told(role="follower", epoch=2, history="h", primary="us:1") as promoting,
        told(role="primary", epoch=3, history="h") as newest,
    ):
        for followers, epoch, successor in (
            ([copy, primary], 2, primary),
            ([other, gone], 2, gone),
            ([promoting], 2, promoting),
            ([copy, primary, newest], 3, newest),
        ):
            found = await decided(ReplicationState("h", 1, followers=followers))
            assert (found.role, found.fenced_epoch, found.primary) == (
                Role.FENCED, epoch, successor,
            )  # fmt: skip


async def test_a_successor_that_is_slow_to_answer_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer, "CONNECT_S", CONNECT_S)
    async with told(CONNECT_S + 0.5, role="primary", epoch=2, history="h") as slow:
        found = await decided(ReplicationState("h", 1, Role.PRIMARY, slow), follow=slow)
    assert found.role is Role.FOLLOWER


async def test_a_follower_s_data_path_needs_the_flag() -> None:
    with pytest.raises(ConfigError, match="penstock promote"):
        await decided(ReplicationState("h", 1, Role.FOLLOWER, "a:1"))
    found = await decided(ReplicationState("h", 1, Role.FOLLOWER, "a:1"), follow="b:1")
    assert (found.role, found.primary, found.is_settled) == (Role.FOLLOWER, "b:1", True)


async def test_a_promoted_node_ignores_the_flag_until_the_other_was_promoted_after_it(
    successor: Running,
) -> None:
    follow = address(successor)
    promoted = await decided(ReplicationState("h", 3, Role.PRIMARY, follow), follow=follow)
    assert promoted.role is Role.PRIMARY
    outranked = await decided(ReplicationState("h", 1, Role.PRIMARY, follow), follow=follow)
    assert (outranked.role, outranked.is_settled) == (Role.FOLLOWER, False)
    assert outranked.known_epoch == 2, "before the first answer of the primary"
    over_tls = await decided(ReplicationState("h", 3, Role.PRIMARY, "a:1"), follow="https://a:1")
    assert over_tls.role is Role.PRIMARY, "the same node, asked in another way since"
    with pytest.raises(ConfigError, match="not in a higher one"):
        await decided(ReplicationState("other", 1), follow=follow)


async def test_a_promoted_node_with_the_flag_asks_its_own_followers_too(successor: Running) -> None:
    gone = unused_address()
    promoted = ReplicationState("h", 1, Role.PRIMARY, gone, followers=[address(successor)])
    found = await decided(promoted, follow=gone)
    assert (found.role, found.fenced_epoch, found.primary) == (
        Role.FENCED, 2, address(successor),
    )  # fmt: skip


async def test_a_fenced_node_stays_so_or_follows() -> None:
    fenced = ReplicationState("h", 1, Role.FENCED, "b:1", fenced_epoch=2)
    assert await decided(fenced) is fenced
    found = await decided(fenced, follow="b:1")
    assert (found.role, found.is_settled) == (Role.FOLLOWER, False)


async def test_a_data_path_of_another_user_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.replication.starting.os.access", lambda *_: False)
    with pytest.raises(ConfigError) as found:
        await standby_for(options(tmp_path), lambda: None)
    assert str(found.value) == (
        f"failed to lock data-path: open {tmp_path}: permission denied; "
        "run this as the user whom the folder belongs to"
    )
