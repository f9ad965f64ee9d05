"""``penstock`` itself: its start, output and signals, and a broker that does without NSQ."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import PIPE_BUF

import pytest

from penstock import __version__
from penstock.cli import penstock
from penstock.cli.promote import run_promote
from penstock.cluster.access import Access
from penstock.core.settings import java_properties
from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import Producer
from penstock.testing.clock import FakeClock
from penstock.testing.daemons import run_mqnamesrv
from tests.forwarding import wait_until
from tests.programs.cli.test_starts import imported
from tests.rocketmq_pair import CONFIG, QUICK, SECONDS, TOPIC, consume
from tools.harness.ports import unused_address


def run(*arguments: str) -> int:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as ended:
            penstock.main(arguments)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(ended.value.code or 0)


def waiting(reader: int) -> int:
    """The bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_pipe_that_does_not_wait_gets_all_of_the_output() -> None:
    words = [sys.executable, "-m", "penstock.cli.penstock", "help", "flags", "nsqd"]
    wanted = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BUF)
    os.set_blocking(writer, False)
    # Of what is written at once nothing is taken that does not fit as a whole.
    full = PIPE_BUF - max(map(len, wanted.splitlines(keepends=True)))
    assert len(wanted) > PIPE_BUF > full > 0
    with (
        subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE) as program,
        open(reader, "rb") as output,  # the first to be closed, without which the other may wait
    ):
        os.close(writer)
        wait_until(lambda: waiting(reader) > full, lambda: f"{waiting(reader)} bytes were written")
        assert output.read() == wanted
        assert program.communicate(timeout=60)[1] == b""
    assert program.returncode == 0


def test_the_zip_for_executors_is_named_as_shells_want_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("pipeline", "zip", "--to", str(tmp_path))
    said = capsys.readouterr().out
    assert said == f"{tmp_path}/penstock-{__version__}.zip\n"
    assert Path(said.rstrip()).exists()


@pytest.mark.parametrize(
    ("command", "flag"),
    [("demo", "--rate=-1"), ("demo", "--events=0"), ("demo", "--events=-5"),
     ("up", "--nodes=0"), ("up", "--nodes=10")],
)  # fmt: skip
def test_counts_that_make_no_sense_are_refused(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, flag) == 2
    said = capsys.readouterr()
    assert flag.partition("=")[0] in said.out + said.err


def test_the_echo_of_a_signal_is_not_a_second_one() -> None:
    clock = FakeClock()
    interrupt = penstock.Interrupt(clock)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGTERM, None)
    clock.advance(200_000_000)
    interrupt(signal.SIGTERM, None)
    clock.advance(2_000_000_000)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


_INTERRUPTED_WHILE_LOADING = """
import os, signal, sys
from penstock.cli.start import main

class Interrupting:
    def find_spec(self, name, *_):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""


def test_an_interrupt_while_it_is_loaded_is_no_traceback() -> None:
    words = [sys.executable, "-c", _INTERRUPTED_WHILE_LOADING]
    done = subprocess.run(words, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_it_is_the_command() -> None:
    text = "import sys; sys.argv[1:] = ['--version']; from penstock.cli.start import main; main()"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, f"penstock {__version__}\n")


@contextmanager
def running(folder: Path, name_server: str, **properties: object) -> Iterator[Path]:
    """A broker without NSQ's ports until the end of the block, and its log, which names each
    module that it imports.
    """
    folder.mkdir()
    config, log = folder / "broker.properties", folder / "log"
    config.write_text(java_properties.dumps({
        **QUICK, "brokerName": "b", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1",
        "listenPort": 0, "namesrvAddr": name_server, "storePathRootDir": folder / "store",
        "autoCreateTopicEnable": "true", **properties,
    }))  # fmt: skip
    command = ["-X", "importtime", "-m", "penstock.cli.mqbroker", "-c", str(config)]
    with (
        log.open("w") as stderr,
        subprocess.Popen([sys.executable, *command], stderr=stderr, stdout=subprocess.PIPE,
                         text=True) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            assert "boot success" in process.stdout.readline(), log.read_text()
            yield log
        finally:
            process.terminate()
    assert process.returncode == 0, log.read_text()


def of_nsq(log: Path) -> set[str]:
    """The modules of NSQ that a broker has imported."""
    names = imported(log.read_text().splitlines())
    assert "penstock.rocketmq.broker.daemon" in names
    return {each for each in names if each.startswith("penstock.nsq")}


def wait_until_whole(slave: str) -> None:
    """Wait until a slave has all that its master has."""
    host, _, port = slave.rpartition(":")
    deadline = time.monotonic() + SECONDS
    answer: dict[str, object] = {}
    while time.monotonic() < deadline and not answer.get("whole"):
        connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
        connection.request("GET", "/replication")
        answer = json.loads(connection.getresponse().read())
        connection.close()
        time.sleep(0.05)
    assert answer["whole"], answer


def test_a_master_and_a_slave_that_is_promoted_load_nothing_of_nsq(tmp_path: Path) -> None:
    master, slave = unused_address(), unused_address()
    ports = [each.rpartition(":")[2] for each in (master, slave)]
    with (
        run_mqnamesrv() as servers,
        running(tmp_path / "master", servers.rocketmq, haListenPort=ports[0]) as log,
        Producer("desk", servers.rocketmq, config=CONFIG) as producer,
        running(tmp_path / "slave", servers.rocketmq, haListenPort=ports[1], brokerRole="SLAVE",
                brokerId=1, haMasterAddress=master) as log_of_slave,
    ):  # fmt: skip
        for number in range(8):
            producer.send(Message(TOPIC, b"%d" % number, keys=f"key-{number}"))
        assert len(consume(servers, "billing", 8)) == 8
        wait_until_whole(slave)
        run_promote(slave, Access())
    assert [of_nsq(each) for each in (log, log_of_slave)] == [set(), set()]
