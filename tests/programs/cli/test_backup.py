"""``penstock backup`` and ``restore`` of real nodes under load, and as a user meets them."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.cli.live.small_client import Wire
from penstock.cli.shared.data_paths import BESIDE_TOPICS
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import MessageBlock
from penstock.replication.copy import FILES, TABLES
from penstock.rocketmq.client import Config
from penstock.rocketmq.client.blocking import LitePullConsumer, Producer
from penstock.rocketmq.client.errors import NoRoute
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages.message import decode
from penstock.spark.access import close_connections
from penstock.spark.errors import SourceError
from penstock.spark.read.stream import StreamReader
from penstock.spark.source_settings import SourceSettings
from penstock.storage.batch import iter_batches
from penstock.testing.daemons import Daemon, MqBroker, run_mqbroker, run_mqnamesrv, run_nsqd
from tests.forwarding import wait_until
from tests.unit.cli.doctor.patients import healthy, segments
from tests.unit.cli.nodes_at_work import Commands, ask, consume, make
from tools.harness.rocketmq.raw_client import RawClient

T = TypeVar("T")

SMALL = "--max-bytes-per-file=65536"
AFTERWARDS = ("--max-rdy-count=1000000", "--retention-time=1h")
PILE = 20
PATIENT = Config(request_timeout=60.0, send_msg_timeout=60.0, consumer_pull_timeout=120.0)


class Load:
    """Publishes numbers to topic t and finishes those of channel c, in threads.

    ``acknowledged`` and ``finished`` are counted after the answer, and after the FIN was sent.
    """

    def __init__(self, nsqd: Daemon) -> None:
        self.acknowledged = 0
        self.finished: set[int] = set()
        self._nsqd = nsqd
        self._ends = threading.Event()
        self.threads = [threading.Thread(target=work) for work in (self._publish, self._consume)]

    def _publish(self) -> None:
        wire = Wire(self._nsqd.tcp)
        frames = wire.frames()
        is_last = False
        while not is_last:
            # One more after the end is told, for which the consumer may be waiting.
            is_last = self._ends.is_set()
            first = self.acknowledged
            wire.send(encode.multi_publish("t", [body(first + n) for n in range(PILE)]))
            next(frames)
            self.acknowledged = first + PILE
        wire.close()

    def _consume(self) -> None:
        wire = Wire(self._nsqd.tcp)
        frames = wire.frames()
        wire.send(encode.subscribe("t", "c"))
        next(frames)
        wire.send(encode.ready(50))
        while not self._ends.is_set():
            block = next(frames)
            if isinstance(block, MessageBlock):
                numbers = [number_of(message.body) for message in block]
                wire.send(block.finish_commands())
                self.finished.update(numbers)
        wire.close()

    def until(self, number: int) -> None:
        while self.acknowledged < number:
            self.threads[0].join(0.01)
            assert self.threads[0].is_alive()

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self.threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in self.threads:
                thread.join()


def body(number: int) -> bytes:
    return b"%08d" % number + bytes(100)


def number_of(body: bytes) -> int:
    return int(body[:8])


def stored(nsqd: Daemon) -> dict[int, int]:
    """Which number is at which offset, of all that the log holds."""
    offsets = ask(nsqd, "GET", "/log/offsets?topic=t")["queues"][0]
    found, offset = {}, offsets["start"]
    while offset < offsets["end"]:
        connection = http.client.HTTPConnection("127.0.0.1", nsqd.http_port, timeout=30)
        connection.request("GET", f"/log/fetch?topic=t&offset={offset}")
        response = connection.getresponse()
        data = response.read()
        assert response.status == 200, data
        connection.close()
        for batch in iter_batches(data):
            for each in range(batch.first_offset, batch.next_offset):
                found[each] = number_of(bytes(batch.slice(each, each + 1))[34:])
            offset = batch.next_offset
    return found


@pytest.mark.parametrize(
    "flags",
    [
        (SMALL, "--retention-time=1h"),
        pytest.param((SMALL,), marks=pytest.mark.nightly),
        (SMALL, "--durability=fsync"),
    ],
)
def test_what_was_acknowledged_before_a_backup_under_load_is_restored_exactly(
    tmp_path: Path, command: Commands, flags: tuple[str, ...]
) -> None:
    folder, moments = tmp_path / "backups", []
    is_kept = "--retention-time=1h" in flags  # otherwise segments are deleted meanwhile
    with run_nsqd(*flags, data_path=tmp_path / "data") as nsqd:
        make(nsqd, "t", "c", *["late"] * is_kept)
        load = Load(nsqd)
        with load.running():
            for goal in (1_000, 3_000, 8_000):
                load.until(goal)
                acknowledged = load.acknowledged
                ended = command("backup", str(folder), f"--data-path={tmp_path / 'data'}")
                assert ended.code == 0, ended.err
                moments.append(
                    (ended.out.split()[1].rstrip(":"), acknowledged, load.finished.copy())
                )
    for number, (moment, acknowledged, finished) in enumerate(moments):
        path = tmp_path / f"restored {number}"
        ended = command("restore", str(folder), f"--data-path={path}", f"--at={moment}")
        assert ended.code == 0, ended
        # Segments whose messages are done with are deleted while they are copied.
        assert re.search("no fault found|that a killed process has left", ended.out), ended.out
        with run_nsqd(*AFTERWARDS, data_path=path) as nsqd:
            log = stored(nsqd)
            assert all(offset == number for offset, number in log.items())
            assert list(log) == list(range(min(log, default=0), max(log, default=-1) + 1))
            assert max(log, default=-1) >= acknowledged - 1
            delivered = consume(nsqd, "t", "c", waiting(nsqd, "c"))
            numbers = {number_of(each) for each in delivered}
            assert numbers >= set(range(acknowledged)) - finished
            assert numbers <= set(log)
            if is_kept:
                assert (min(log), waiting(nsqd, "late")) == (0, len(log))


def waiting(nsqd: Daemon, channel: str) -> int:
    topic = ask(nsqd, "GET", "/stats?format=json&topic=t")["topics"][0]
    return int(next(c["depth"] for c in topic["channels"] if c["channel_name"] == channel))


@pytest.fixture
def connections() -> Iterator[None]:
    """Those of queries, which a process keeps, are closed."""
    yield
    close_connections()


@pytest.mark.usefixtures("connections")
def test_a_query_behind_a_node_that_was_restored_is_told_and_skips_nothing(
    tmp_path: Path, command: Commands
) -> None:
    """1,500 messages were read, 500 of them since the backup; then come 1,000 others."""
    data, folder, again = (str(tmp_path / each) for each in ("data", "backups", "restored"))
    with run_nsqd(data_path=data) as nsqd:
        publish(nsqd, b"kept", 1000)
        ended = command("backup", folder, f"--data-path={data}")
        assert ended.code == 0, ended.err
        publish(nsqd, b"lost", 500)
        begin = reader(nsqd).initialOffset()
        stands = reader(nsqd).latestOffset(begin, ReadAllAvailable())
        nsqd.kill()
    assert command("restore", folder, f"--data-path={again}").code == 0
    with run_nsqd(data_path=again) as nsqd:
        publish(nsqd, b"new", 1000)
        with pytest.raises(SourceError) as failed:
            reader(nsqd).latestOffset(stands, ReadAllAvailable())
        assert str(failed.value).startswith(
            f"node {nsqd.http} was restored from a backup: topic t (queue 0) has other messages "
            "from offset 1000 on than before. It was read up to offset 1500"
        )
        stream = reader(nsqd, failOnDataLoss="false")
        end = stream.latestOffset(stands, ReadAllAvailable())
        batches = [batch for part in stream.partitions(stands, end) for batch in stream.read(part)]
        bodies = [body for batch in batches for body in batch["body"].to_pylist()]
        assert bodies == [b"new"] * 1000


def publish(nsqd: Daemon, body: bytes, count: int) -> None:
    ask(nsqd, "POST", "/mpub?topic=t", b"\n".join([body] * count))


def reader(nsqd: Daemon, **options: str) -> StreamReader:
    given = {"topic": "t", "nsqd_http_address": nsqd.http, "timeout": "60",
             "startingOffsets": "earliest", "group": "g", **options}  # fmt: skip
    return StreamReader(SourceSettings.parse(given), ("body",))


def test_a_backup_has_every_small_file_that_a_copy_has() -> None:
    assert {*FILES, TABLES} <= {*BESIDE_TOPICS}


def test_a_rocketmq_broker_is_restored_with_its_queues_and_offsets(
    tmp_path: Path, command: Commands
) -> None:
    data, folder, restored = (str(tmp_path / each) for each in ("data", "backups", "restored"))
    with run_mqnamesrv() as names:
        quick = {"flushConsumerOffsetInterval": 100}
        with run_mqbroker(name_server=names.rocketmq, data_path=data, **quick) as broker:
            with Producer("p", names.rocketmq, config=PATIENT) as producer:
                sent = [routed(lambda: producer.send(Message("t", b"0")))]
                sent += [producer.send(Message("t", b"%d" % each)) for each in range(1, 40)]
                younger = producer.send(Message("a", b"of the younger topic"))
            with LitePullConsumer("g", names.rocketmq, config=PATIENT) as consumer:
                consumer.subscribe("t")
                first = {each.body for each in consumer.poll(30)}
                consumer.commit()
            until_written(Path(data), "t@g", len(first))
            ended = command("backup", folder, f"--data-path={data}")
            assert ended.code == 0, ended.err
            broker.kill()
        ended = command("restore", folder, f"--data-path={restored}")
        assert (ended.code, ended.out.splitlines()[-2]) == (0, "no fault found"), ended
        with run_mqbroker(name_server=names.rocketmq, data_path=restored) as broker:
            found = [viewed(broker, each.physical_offset) for each in (sent[0], younger)]
            assert found == [b"0", b"of the younger topic"]
            broker.wait_for("registered")  # in the place of the one before
            with LitePullConsumer("g", names.rocketmq, config=PATIENT) as consumer:
                queues = {each.queue for each in sent}
                ends = {q: max(s.queue_offset for s in sent if s.queue == q) + 1 for q in queues}
                routed(lambda: consumer.topic_queues("t"))
                assert {queue: consumer.max_offset(queue) for queue in queues} == ends
                consumer.subscribe("t")
                rest: set[bytes] = set()

                def has_all() -> bool:
                    rest.update(each.body for each in consumer.poll(0.05))
                    return len(rest) >= 40 - len(first)

                wait_until(has_all, lambda: f"{len(rest)} of {40 - len(first)}")
            assert (len(rest | first), rest & first) == (40, set())


def viewed(broker: MqBroker, physical_offset: int) -> bytes:
    """The body of the message that a client knows by its physical offset."""
    client = RawClient(broker.port)
    answer = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=physical_offset)
    client.close()
    return decode(answer.body)[0].body


def routed(ask: Callable[[], T]) -> T:
    """The answer once the broker has told the name server of itself."""
    answers: list[T] = []

    def is_answered() -> bool:
        with suppress(NoRoute):
            answers.append(ask())
        return bool(answers)

    wait_until(is_answered, lambda: "there is no route")
    return answers[0]


def until_written(data: Path, group: str, consumed: int) -> None:
    """Wait until the broker has written that a topic's group has consumed so many messages."""
    file = data / "config" / "consumerOffset.json"

    def written() -> int:
        table = fastjson.loads(file.read_bytes())["offsetTable"] if file.exists() else {}
        return sum(table.get(group, {}).values())

    wait_until(lambda: written() == consumed, lambda: f"{written()} instead of {consumed}")


def test_backups_are_listed_and_forgotten(tmp_path: Path, command: Commands) -> None:
    healthy(tmp_path / "data")
    folder, data = str(tmp_path / "backups"), f"--data-path={tmp_path / 'data'}"
    assert command("backup", folder, "--list").out == ""
    made = [command("backup", folder, data).out.split()[1].rstrip(":") for _ in range(3)]
    lines = command("backup", folder, "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == made
    assert all(line.endswith(f"of {tmp_path / 'data'}") for line in lines)
    ended = command("backup", folder, data, "--keep=2")
    assert ended.out.endswith(" bytes, 0 of them new\n")
    assert len(command("backup", folder, "--list").out.splitlines()) == 2
    ended = command("restore", folder, f"--data-path={tmp_path / 'new'}")
    assert (ended.code, ended.out.splitlines()[:2]) == (
        0, [f"examined data path {tmp_path / 'new'}: 1 topic, 60 messages", "no fault found"]
    )  # fmt: skip
    assert f"{tmp_path / 'new'} is as {tmp_path / 'data'} was at 20" in ended.out


def test_errors_are_one_line(tmp_path: Path, command: Commands) -> None:
    healthy(tmp_path / "data")
    folder, data = str(tmp_path / "backups"), f"--data-path={tmp_path / 'data'}"
    for arguments, said in (
        (["backup", folder], "say what to back up: --data-path"),
        (["backup", folder, f"--data-path={tmp_path / 'no'}"], "does not exist; name nsqd"),
        (["backup", folder, f"--data-path={tmp_path / ('n' * 300)}"], "read: file name too long"),
        (["backup", __file__, data], f"{__file__} is not a folder"),
        (["restore", __file__, data], f"{__file__} is not a folder"),
        (["restore", folder, data], f"{folder} has no backup: name the folder that"),
        (["backup", folder, data], ""),
        (["restore", folder, data], "is not empty; a backup is restored into a new data path"),
        (["restore", folder, data, "--at=never"], "has no backup never; it has 2"),
    ):
        ended = command(*arguments)
        assert ended.code == (2 if said.startswith("say") else bool(said))
        assert said in ended.err
        assert ended.err.count("\n") == bool(said)


def test_damage_that_was_backed_up_is_said_when_it_is_restored(
    tmp_path: Path, command: Commands
) -> None:
    with segments(healthy(tmp_path / "data"))[0].open("r+b") as oldest:
        oldest.seek(300)
        oldest.write(b"damaged")
    assert command("backup", str(tmp_path / "b"), f"--data-path={tmp_path / 'data'}").code == 0
    ended = command("restore", str(tmp_path / "b"), f"--data-path={tmp_path / 'new'}")
    assert ended.code == 1
    assert "1 message is lost, offset " in ended.out
    assert ended.err == f"penstock: {tmp_path / 'new'} was restored with damage, as above\n"
