"""Many clients that each hold as much memory as one may: together they stay within the budgets."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from urllib.request import urlopen

from .conftest import Victim, ask, publish, read_frame, running, wait_until

MIB = 1024 * 1024
BUDGET = 16 * MIB
FLAGS = (f"--max-request-memory={BUDGET}", f"--max-answer-memory={BUDGET}")
CROWD = 128
TOGETHER_MAX = BUDGET + CROWD * MIB // 4 + BUDGET
"""The most that they may take together: the budget, one read each, and memory that Python keeps."""
GIVEN_UP = "its command takes too long while --max-request-memory is used up"
TRIES_MAX = 5
FETCH = f"/log/fetch?topic=kept&offset=0&max_bytes={BUDGET}"


def held(victim: Victim) -> dict[str, int]:
    memory: dict[str, int] = victim.get("/stats?format=json")["memory"]
    return memory


def test_answers_that_nobody_reads(stack: ExitStack) -> None:
    with running(*FLAGS) as victim:
        with victim.connect() as producer:
            for _ in range(BUDGET // MIB + 1):
                assert ask(producer, publish("kept", bytes(MIB))) == b"OK"
        before = victim.rss
        request = f"GET {FETCH} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
        port = victim.daemon.http_port
        socks = [stack.enter_context(victim.connect_slowly_reading(port, request))
                 for _ in range(CROWD)]  # fmt: skip
        statuses = sorted(sock.recv(12, socket.MSG_WAITALL)[9:] for sock in socks)
        assert statuses.count(b"503") >= CROWD - 3
        assert statuses.count(b"200") >= 1
        assert victim.rss - before < 4 * BUDGET  # 2 GiB without a bound
        assert held(victim)["answer_bytes_max"] == BUDGET
        assert 0 < held(victim)["answer_bytes"] <= 2 * BUDGET
        assert held(victim)["answers_refused"] == statuses.count(b"503")
        for sock in socks:
            sock.close()
        assert wait_until(lambda: not held(victim)["answer_bytes"])
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", FETCH)
        assert len(connection.getresponse().read()) > BUDGET - 2 * MIB
        connection.close()
        victim.check_alive()


def half_sent(victim: Victim, stack: ExitStack, count: int) -> list[Sender]:
    """A number of clients, each of which sends all of a command but its last byte."""
    half = publish("half", bytes(MIB))[:-1]
    senders = [Sender(stack.enter_context(victim.connect()), half) for _ in range(count)]
    most = max(1, count - 2 * BUDGET // MIB)
    assert wait_until(lambda: held(victim)["requests_held_up"] >= most)
    return senders


def test_commands_that_are_not_complete(stack: ExitStack) -> None:
    with running(*FLAGS, "--metrics") as victim:
        before = victim.rss
        senders = half_sent(victim, stack, CROWD)
        started = time.monotonic()
        victim.check_alive()  # small ones are not held up
        assert time.monotonic() - started < 40  # in turn it would wait some 10 s, time and again
        assert victim.rss - before < TOGETHER_MAX
        with urlopen(f"http://{victim.daemon.http}/metrics", timeout=30) as page:
            assert f"\nnsqd_request_bytes_max {BUDGET}\n" in page.read().decode()
        for sender in senders:
            sender.end()
        assert wait_until(lambda: not held(victim)["request_bytes"])
        with victim.connect() as sock:
            assert ask(sock, publish("whole", bytes(MIB))) == b"OK"
        victim.check_alive()


def test_those_that_get_nowhere_give_way_to_one_that_does(stack: ExitStack) -> None:
    with running(*FLAGS) as victim:
        senders = half_sent(victim, stack, 20)
        with victim.connect() as large:
            assert ask(large, publish("whole", bytes(MIB))) == b"OK"
        assert GIVEN_UP in victim.daemon.log()
        for sender in senders:
            sender.end()
        victim.check_alive()


def test_all_that_send_to_the_end_have_their_answers(stack: ExitStack) -> None:
    """The commands do not fit at the same time, so each has its turn."""
    with running(*FLAGS) as victim:
        whole = publish("turns", bytes(MIB))
        senders = [Sender(stack.enter_context(victim.connect()), whole) for _ in range(CROWD)]
        for sender in senders:
            for _ in range(TRIES_MAX):
                if outcome(sender) == (0, b"OK"):
                    break
                # All of this process were kept from sending for the 10 s after which that happens.
                assert GIVEN_UP in victim.daemon.log()
                sender.end()
                sender = Sender(stack.enter_context(victim.connect()), whole)
            else:
                raise AssertionError("it was given up time and again")
            sender.end()
        (topic,) = victim.get("/stats?format=json")["topics"]
        assert topic["message_count"] == CROWD
        assert held(victim)["request_bytes"] == 0
        victim.check_alive()


def outcome(sender: Sender) -> tuple[int, bytes]:
    """The answer to what it sends; one of no kind where the connection ends without."""
    try:
        return read_frame(sender.sock)
    except ConnectionError:
        return -1, b""


class Sender(threading.Thread):
    """Sends in the background, as far as the daemon reads."""

    def __init__(self, sock: socket.socket, data: bytes) -> None:
        super().__init__(daemon=True)
        self.sock = sock
        self._data = data
        self.start()

    def run(self) -> None:
        with suppress(OSError):  # it was given up
            self.sock.sendall(self._data)

    def end(self) -> None:
        """Close the connection."""
        with suppress(OSError):  # nsqd has ended it
            self.sock.shutdown(socket.SHUT_RDWR)
        self.join(30)


def test_frames_of_rocketmq_are_of_the_same_budget(stack: ExitStack) -> None:
    with running(*FLAGS, "--rocketmq-address=127.0.0.1:0") as victim:
        log, listening = victim.daemon.log, re.compile(r"RocketMQ: listening on \S+:(\d+)")
        assert wait_until(lambda: listening.search(log()) is not None)
        port = int(listening.findall(log())[0])
        before = victim.rss
        half = struct.pack(">iI", 8 * MIB, 2) + b"{}" + bytes(MIB)
        for _ in range(CROWD):
            Sender(stack.enter_context(socket.create_connection(("127.0.0.1", port))), half)
        assert wait_until(lambda: held(victim)["requests_held_up"] >= CROWD // 2)
        assert victim.rss - before < TOGETHER_MAX
        victim.check_alive()


def test_wrong_fins_cost_answers_and_few_lines() -> None:
    count = 20_000
    with running() as victim, victim.connect() as sock:
        assert ask(sock, b"SUB t c\n") == b"OK"
        fins = b"".join(b"FIN %016x\n" % number for number in range(count))
        Sender(sock, fins)
        for number in range(count):
            kind, data = read_frame(sock)
            assert (kind, data) == (1, b"E_FIN_FAILED FIN %016x failed ID not in flight" % number)
        sock.sendall(b"FIN x\n")  # the connection goes on, until this
        assert read_frame(sock)[0] == 1
        sock.close()
        log = victim.daemon.log
        assert wait_until(lambda: "more lines about its commands were left out" in log())
        assert log().count("E_FIN_FAILED") < 1000
        victim.check_alive()
