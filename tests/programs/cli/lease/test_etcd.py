"""``penstock lease`` beside real nodes, over a real etcd."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from penstock.cli.lease.etcd import Etcd
from penstock.cli.lease.record import LeaseError, Record
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.testing.daemons import Daemon, MqBroker, run_mqbroker, run_mqnamesrv, run_nsqd
from tests.copies import ask, until, until_copied
from tests.debian import needed
from tests.programs.rocketmq.broker.asking import pull, send
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient

pytestmark = pytest.mark.nightly

SECONDS = 4
ACKED = ("--needs-lease", "--replicas-acked=1", "--replicas-missing=go-on")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an etcd of one member."""
    client, peer = unused_address(), unused_address()
    folder = tmp_path_factory.mktemp("etcd")
    words = [needed("etcd", "etcd-server"), f"--data-dir={folder / 'data'}",
             f"--listen-client-urls=http://{client}", f"--advertise-client-urls=http://{client}",
             f"--listen-peer-urls=http://{peer}", f"--initial-advertise-peer-urls=http://{peer}",
             f"--initial-cluster=default=http://{peer}", "--unsafe-no-fsync"]  # fmt: skip
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(words, stdout=log, stderr=log) as process,
    ):
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://{client}/health", timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield client
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def tended(etcd: str, name: str, node: Daemon, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A lease program beside a node."""
    address = node.copies if isinstance(node, MqBroker) else node.http
    words = [sys.executable, "-m", "penstock.cli.penstock", "lease", f"etcd://{etcd}/{name}",
             address, f"--duration={SECONDS}s"]  # fmt: skip
    with log.open("ab") as file, subprocess.Popen(words, stdout=file, stderr=file) as process:
        try:
            yield process
        finally:
            process.kill()


def published(node: Daemon) -> int:
    """The status of a publish, tried until it is taken."""
    status = 0
    for _ in range(600):
        try:
            status = ask(node, "POST", "/pub?topic=t", b"x")[0]
        except OSError:
            status = 0
        if status == 200:
            break
        time.sleep(0.1)
    return status


def test_a_key_is_changed_by_one_of_two(etcd: str) -> None:
    one, other = (Etcd([unused_address(), etcd], "cas") for _ in range(2))
    seen = one.read()
    assert seen.record is None
    assert one.write(seen, Record(holder="a", epoch=1))
    assert not other.write(seen, Record(holder="b", epoch=1))
    found = other.read()
    assert found.record == Record(holder="a", epoch=1)
    assert other.write(found, Record(holder="b", epoch=2))
    with pytest.raises(LeaseError, match="cannot be asked"):
        Etcd([unused_address()], "cas").read()


def test_a_primary_that_dies_is_followed_by_its_copy_and_comes_back_as_one(
    etcd: str, tmp_path: Path
) -> None:
    with ExitStack() as running:
        a = running.enter_context(run_nsqd(*ACKED))
        b = running.enter_context(run_nsqd(*ACKED, f"--follow={a.http}"))
        assert ask(a, "POST", "/pub?topic=t", b"x")[0] == 503, "nobody has given it a lease"
        assert ask(a, "GET", "/ready")[0] == 503
        for name, node in (("a", a), ("b", b)):
            running.enter_context(tended(etcd, "pair", node, tmp_path / name))
        assert published(a) == 200
        store = Etcd([etcd], "pair")
        for _ in range(600):
            record = store.read().record
            if record is not None and record.in_sync == [b.http]:
                break
            time.sleep(0.1)
        else:
            raise AssertionError((tmp_path / "a").read_text())
        count = 2
        for _ in range(count - 1):
            assert published(a) == 200
        a.kill()
        died = time.monotonic()
        until(b, role="primary", epoch=2)
        assert published(b) == 200
        assert time.monotonic() - died < 60
        assert ask(b, "GET", "/log/offsets?topic=t")[1]["queues"][0]["end"] == count + 1
        a.start()
        until(a, role="fenced")


def test_a_primary_without_the_store_takes_no_publishes_when_its_lease_is_over(
    etcd: str, tmp_path: Path
) -> None:
    with run_nsqd("--needs-lease") as a:
        with tended(etcd, "alone", a, tmp_path / "a"):
            assert published(a) == 200
        time.sleep(SECONDS)
        status, answer = ask(a, "POST", "/pub?topic=t", b"x")
        assert (status, answer["message"]) == (503, "NOT_COPIED")
        with tended(etcd, "alone", a, tmp_path / "a"):
            assert published(a) == 200


def sent(broker: MqBroker) -> int:
    """The code that a send is answered, tried until it is taken."""
    answer = None
    for _ in range(600):
        with closing(RawClient(broker.port)) as client:
            answer = send(client, "T")
        if answer.code == ResponseCode.SUCCESS:
            break
        time.sleep(0.1)
    assert answer is not None
    return answer.code


def test_a_master_that_dies_is_followed_by_its_slave_and_comes_back_fenced(
    etcd: str, tmp_path: Path
) -> None:
    """Of RocketMQ's brokers no slave is listed: one is promoted if it lags by less than this."""
    found = {"needsLease": "true", "promoteMaxLag": "60s"}
    with ExitStack() as running:
        enter = running.enter_context
        names = enter(run_mqnamesrv()).rocketmq
        a = enter(run_mqbroker(name_server=names, **found))
        a.wait_for("registered")
        b = enter(run_mqbroker(name_server=names, brokerRole="SLAVE", brokerId=1, **found))
        until(b, whole=True)
        with closing(RawClient(a.port)) as client:
            assert send(client, "T").code == ResponseCode.SERVICE_NOT_AVAILABLE
        for name, broker in (("a", a), ("b", b)):
            enter(tended(etcd, "brokers", broker, tmp_path / name))
        assert sent(a) == ResponseCode.SUCCESS
        until_copied(a, b, "T")
        a.kill()
        until(b, role="primary", epoch=2)
        b.wait_for("registered")
        assert sent(b) == ResponseCode.SUCCESS
        with closing(RawClient(b.port)) as client:
            assert [len(pull(client, "T", 0, offset)[1]) for offset in range(2)] == [2, 1]
        a.start()
        until(a, role="fenced")
