"""From a channel of a real nsqd to staged files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import StorageError
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.client.config import Config
from penstock.spark.channel.folder import Folder, read
from penstock.spark.channel.settings import ChannelSettings
from penstock.spark.channel.stager import FILED, Pile, Stager, record_batch
from penstock.spark.errors import SourceError
from penstock.storage.files.disk import OsDisk
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import bodies_in, channel, create, publish, wait_until
from tools.harness.certificates import Certificates
from tools.harness.ports import unused_address


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        create(daemon, "t", "c")
        yield daemon


def settings(folder: Path, address: str, **more: str) -> ChannelSettings:
    return ChannelSettings.parse(
        {
            "mode": "channel", "topic": "t", "channel": "c", "nsqd_tcp_address": address,
            "stagingLocation": str(folder), **more,
        }
    )  # fmt: skip


@contextmanager
def staging(folder: Folder, settings: ChannelSettings, least: int = 0) -> Iterator[Stager]:
    folder.open(settings.topic, settings.channel)
    stager = Stager(settings, folder, least)
    try:
        yield stager
    finally:
        stager.stop()
        folder.close()


def staged(folder: Folder) -> list[bytes]:
    batches = [batch for number in list(folder.files) for batch in read(folder.path, number)]
    return [body for batch in batches for body in batch.column("body").to_pylist()]


def wait_for(nsqd: Daemon, **counts: int) -> None:
    def found() -> dict[str, Any]:
        statistics = channel(nsqd, "t", "c")
        return {name: statistics[name] for name in counts}

    wait_until(lambda: found() == counts, lambda: f"{found()}, wanted {counts}")


def test_messages_are_finished_once_they_are_staged(nsqd: Daemon, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(6000)]
    publish(nsqd, "t", bodies)
    folder = Folder(str(tmp_path))
    with staging(folder, settings(tmp_path, nsqd.tcp)) as stager:
        assert stager.staged(0, wait_s=60)
        wait_for(nsqd, depth=0, in_flight_count=0, timeout_count=0, requeue_count=0)
        assert staged(folder) == bodies
        assert max(file.rows for file in folder.files.values()) <= 2500


def test_a_channel_is_not_quiet_while_messages_are_being_staged(
    nsqd: Daemon, tmp_path: Path
) -> None:
    """A disk that takes long for a file must not end a run of AvailableNow without its rows."""
    begun, go_on = Event(), Event()

    class Slow(Folder):
        def write(self, *given: Any) -> int:
            begun.set()
            go_on.wait(60)
            return super().write(*given)

    publish(nsqd, "t", [b"a"])
    with staging(Slow(str(tmp_path)), settings(tmp_path, nsqd.tcp)) as stager:
        assert begun.wait(60)
        assert stager.quiet_s == 0
        go_on.set()
        assert stager.staged(0, wait_s=60)
        wait_until(lambda: stager.quiet_s > 0, lambda: "never quiet")


def test_numbers_go_on_where_the_checkpoint_is(nsqd: Daemon, tmp_path: Path) -> None:
    publish(nsqd, "t", [b"a"])
    with staging(Folder(str(tmp_path)), settings(tmp_path, nsqd.tcp), 17) as stager:
        assert list(stager.staged(0, wait_s=60)) == [17]
        assert stager.staged(18, wait_s=0) == {}
        now = SYSTEM_CLOCK.wall_ns()
        assert stager.published_before(17, now)
        assert not stager.published_before(17, now - 3600 * 10**9)


def test_a_file_ends_when_it_is_big_enough(nsqd: Daemon, tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    publish(nsqd, "t", [b"x" * 100_000] * 40)
    with staging(folder, settings(tmp_path, nsqd.tcp, maxFileBytes="300000")):
        wait_for(nsqd, depth=0, in_flight_count=0)
        assert len(staged(folder)) == 40
        assert max(file.nbytes for file in folder.files.values()) < 1_000_000


def test_an_error_that_nobody_thought_of_ends_the_query(nsqd: Daemon, tmp_path: Path) -> None:
    class Short(Folder):
        def write(self, *given: Any) -> int:
            raise MemoryError("no room for the columns")

    publish(nsqd, "t", [b"a"])
    with (
        staging(Short(str(tmp_path)), settings(tmp_path, nsqd.tcp)) as stager,
        pytest.raises(SourceError, match=r"cannot be staged: no room for the columns\. They were"),
    ):
        stager.staged(0, wait_s=60)
    wait_for(nsqd, depth=1, in_flight_count=0, timeout_count=0)


def test_nodes_keep_what_there_is_no_room_for(nsqd: Daemon, tmp_path: Path) -> None:
    bodies = [b"%05d" % number + b"x" * 995 for number in range(500)]
    publish(nsqd, "t", bodies)
    folder = Folder(str(tmp_path))
    few = settings(tmp_path, nsqd.tcp, maxStagedBytes="100000", maxInFlight="50")
    with staging(folder, few) as stager:
        wait_until(lambda: folder.nbytes >= 100_000, lambda: f"{folder.nbytes} bytes")
        wait_for(nsqd, in_flight_count=0)
        depth = channel(nsqd, "t", "c")["depth"]
        assert depth >= 300
        found: list[bytes] = []
        while len(found) < len(bodies):
            number = min(stager.staged(0, wait_s=60))
            for batch in read(folder.path, number):
                found += batch.column("body").to_pylist()
            stager.remove_below(number + 1)
            assert folder.nbytes < 300_000
        assert found == bodies
        wait_for(nsqd, depth=0, timeout_count=0)


def test_what_is_not_staged_is_given_back_at_the_end(nsqd: Daemon, tmp_path: Path) -> None:
    class Waiting(Stager):
        def _is_due(self, *_: object, **__: object) -> bool:
            return False

    publish(nsqd, "t", [b"a", b"b"])
    folder = Folder(str(tmp_path))
    folder.open("t", "c")
    stager = Waiting(settings(tmp_path, nsqd.tcp), folder, 0)
    wait_for(nsqd, in_flight_count=2)
    stager.stop()
    wait_for(nsqd, in_flight_count=0, depth=2, requeue_count=2, timeout_count=0)


def test_a_full_disk_is_said_and_costs_no_message(nsqd: Daemon, tmp_path: Path) -> None:
    class Full(OsDisk):
        def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
            if path.endswith(".arrow"):
                raise StorageError(f"{path}: no space left on device")
            super().replace_file(path, *data, sync=sync)

    publish(nsqd, "t", [b"a", b"b"])
    folder = Folder(str(tmp_path), Full())
    with staging(folder, settings(tmp_path, nsqd.tcp)) as stager:
        with pytest.raises(SourceError) as failed:
            stager.staged(0, wait_s=60)
        assert str(failed.value) == (
            f"messages of channel c of topic t cannot be staged: {tmp_path}/000000000000.arrow: "
            "no space left on device. They were given back to the channel"
        )
    assert sorted(bodies_in(nsqd, "t", "c", 2)) == [b"a", b"b"]


def test_a_node_that_nobody_reaches_is_named(tmp_path: Path) -> None:
    address = unused_address()
    alone = settings(tmp_path, address, timeout="1")
    with staging(Folder(str(tmp_path)), alone) as stager, pytest.raises(SourceError) as failed:
        stager.staged(0, wait_s=60)
    said = str(failed.value)
    assert said.startswith(f"no node of channel c of topic t can be reached: {address}: ")
    assert said.endswith("(tried for 1 s; option timeout); start it and run the command again")


def test_a_node_that_restarts_is_waited_for(nsqd: Daemon, tmp_path: Path) -> None:
    publish(nsqd, "t", [b"a"])
    folder = Folder(str(tmp_path))
    with staging(folder, settings(tmp_path, nsqd.tcp, timeout="60")) as stager:
        assert stager.staged(0, wait_s=60)
        wait_for(nsqd, in_flight_count=0)
        nsqd.restart()
        publish(nsqd, "t", [b"b"])
        assert stager.staged(1, wait_s=60)
    assert set(staged(folder)) == {b"a", b"b"}


def test_tls(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    with run_nsqd(*files.flags(), "--tls-required=true") as nsqd:
        wrong = settings(tmp_path / "staging", nsqd.tcp, timeout="1", tls_v1="true")
        folder = Folder(str(tmp_path / "staging"))
        with staging(folder, wrong) as stager, pytest.raises(SourceError, match="certificate"):
            stager.staged(0, wait_s=60)
        right = settings(tmp_path / "staging", nsqd.tcp, tls_root_ca_file=str(files.ca))
        config = Config(tls_v1=True, tls_root_ca_file=str(files.ca))
        with Producer(nsqd.tcp, config=config) as producer:
            producer.publish("t", b"a")
        with staging(Folder(str(tmp_path / "staging")), right) as stager:
            assert stager.staged(0, wait_s=60)


@contextmanager
def piled(nsqd: Daemon, bodies: list[bytes]) -> Iterator[Pile]:
    """A pile of all these, in flight."""
    publish(nsqd, "t", bodies)
    pile = Pile()
    with Consumer("t", "c", nsqd_tcp_addresses=[nsqd.tcp], max_in_flight=2500) as consumer:
        while pile.rows < len(bodies):
            delivery = consumer.get_delivery(30)
            assert delivery is not None
            pile.add(delivery, now_ns=7 if pile.rows else 3)
        yield pile


def test_a_batch_has_what_a_consumer_sees(nsqd: Daemon) -> None:
    bodies = [b"x" * (number % 7 + 1) for number in range(500)]
    with piled(nsqd, bodies) as pile:
        assert pile.since_ns == 3
        assert pile.nbytes == sum(map(len, bodies)) + 34 * len(bodies)
        deliveries = pile.take()
        messages = [message for each in deliveries for message in each.messages()]
        batch = record_batch(deliveries)
    assert (pile.rows, pile.nbytes) == (0, 0)
    assert tuple(batch.schema.names) == FILED
    assert batch.column("body").to_pylist() == bodies
    assert batch.column("id").to_pylist() == [message.id.decode() for message in messages]
    assert set(batch.column("attempts").to_pylist()) == {1}
    assert set(batch.column("node").to_pylist()) == {nsqd.tcp}
    micros = batch.column("timestamp").cast("int64").to_pylist()
    assert micros == [message.timestamp_ns // 1000 for message in messages]


def test_what_is_given_back_comes_at_once_to_others(nsqd: Daemon) -> None:
    with piled(nsqd, [b"a", b"b"]) as pile:
        pile.give_back()
        wait_until(
            lambda: channel(nsqd, "t", "c")["requeue_count"] == 2,
            lambda: str(channel(nsqd, "t", "c")),
        )


def test_what_a_lost_connection_brought_is_left_out(nsqd: Daemon) -> None:
    publish(nsqd, "t", [b"a"])
    pile = Pile()
    with Consumer("t", "c", nsqd_tcp_addresses=[nsqd.tcp]) as consumer:
        delivery = consumer.get_delivery(30)
        assert delivery is not None
        pile.add(delivery, 0)
        nsqd.kill()
        wait_until(lambda: _lost(consumer), lambda: "the connection is still there")
        assert pile.take() == []
        nsqd.start()


def _lost(consumer: Consumer) -> bool:
    consumer.work()
    return not consumer.connections
