"""``penstock lease`` beside real nodes, over a real etcd."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from penstock.cli.lease.etcd import Etcd
from penstock.cli.lease.record import LeaseError, Record
from penstock.testing.daemons import Daemon, run_nsqd
from tests.copies import ask, until
from tests.debian import needed
from tools.harness.ports import unused_address

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
    words = [sys.executable, "-m", "penstock.cli.penstock", "lease", f"etcd://{etcd}/{name}",
             node.http, f"--duration={SECONDS}s"]  # fmt: skip
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
