"""A promoted follower as its clients see it: where it is, and what its messages went through."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest

from penstock.nsq.client import aio
from penstock.nsq.client.config import Config
from penstock.nsq.client.lookup import lookup
from penstock.nsq.protocol.encode import MAGIC_V2
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.copies import ask, publish, until, until_copied
from tests.forwarding import wait_until
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Client
from tests.unit.cli.nodes_at_work import Commands

HOUR_MS = 3_600_000
DEAD = "/deadletters?topic=t.dead&limit=10&from=oldest"


async def connect(daemon: Daemon) -> Client:
    client = Client(*await asyncio.open_connection("127.0.0.1", daemon.tcp_port))
    client.send(MAGIC_V2)
    return client


def promote(new: Daemon, epoch: int = 2) -> None:
    status, answer = ask(new, "POST", "/replication/promote")
    assert (status, answer["epoch"]) == (200, epoch), answer
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
