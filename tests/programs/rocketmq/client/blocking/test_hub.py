"""The network of a blocking client: TLS, signatures, strangers, large answers."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.rocketmq.client import Config, Message, NotConnected
from penstock.rocketmq.client.blocking import Producer, PushConsumer
from penstock.rocketmq.client.blocking.hub import BlockingHub
from penstock.rocketmq.client.errors import ClientError, NoNameServer, Stopped
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers


def test_a_page_that_is_no_http_is_told_as_any_other_that_cannot_be_read() -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"-ERR unknown command\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/nsaddr"
    with (
        Producer("PG", config=replace(QUICK, namesrv_url=url)) as producer,
        pytest.raises(NoNameServer, match="none is listed"),
    ):
        producer.send(Message("T", b"x"))
    thread.join()
    server.close()


def test_a_server_that_refuses_connections_is_named() -> None:
    with (
        Producer("PG", "127.0.0.1:1", config=QUICK) as producer,
        pytest.raises(NoNameServer, match=r"connect to 127\.0\.0\.1:1 failed"),
    ):
        producer.send(Message("T", b"x"))


@pytest.mark.parametrize("what", ["connect", "sleep"])
def test_no_wait_goes_on_after_what_it_waits_for(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would only end with the next timer: after half a minute, or never."""
    address = unused_address()
    hub = BlockingHub(replace(QUICK, namesrv_addr=address), SYSTEM_CLOCK, None)
    waits: list[float | None] = []
    select = hub._selector.select

    def selecting(seconds: float | None = None) -> object:
        waits.append(seconds)
        return select(0)

    monkeypatch.setattr(hub._selector, "select", selecting)
    if what == "connect":
        with pytest.raises(NotConnected):
            hub.run(hub.ask(address, RequestCode.GET_BROKER_CONFIG))
    else:
        hub.wait_for(hub.sleep(0))
    assert set(waits) == {0}
    hub.close()


def test_what_asks_for_no_answer_waits_for_a_server_that_takes_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        hub = BlockingHub(replace(QUICK, namesrv_addr=address), SYSTEM_CLOCK, None)
        drained: list[int] = []

        def send() -> None:
            for _ in range(400):
                hub.tell(address, RequestCode.SEND_MESSAGE_V2, {}, bytes(100_000))
                hub.drain(address)
                drained.append(hub.connections[address].nbytes_said)
            while any(link.is_behind for link in hub._links.values()):
                hub.work(None)  # the last ones may be less than what is waited for

        thread = threading.Thread(target=send)
        thread.start()
        connection, _ = server.accept()
        with connection:
            nbytes = 0
            while nbytes < 400 * 100_000:
                nbytes += len(connection.recv(1 << 20))
            thread.join()
        assert max(drained) < 2 << 20
        hub.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_takes_no_answers_of_its_parent(servers: Servers) -> None:
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send(Message("BForked", b"x"))
        child = os.fork()
        if not child:
            told = ""
            try:
                producer.send(Message("BForked", b"y"))
            except ClientError as error:
                told = str(error)
            producer.close()
            os._exit(0 if "make one in each process" in told else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send(Message("BForked", b"z")).offset_id


def test_a_coroutine_is_no_function_of_a_blocking_client(servers: Servers) -> None:
    async def check(message: object) -> int:
        return 8

    with Producer("PG", servers.address, config=QUICK, on_check=check) as producer:
        found = producer._hub.call(lambda: 5)
        assert found.result() == 5
        coroutine = check(None)
        failed = producer._hub.call(lambda: coroutine)
        assert isinstance(failed.error, TypeError)
        coroutine.close()


class Interrupted:
    """A socket, and a signal that comes while it sends or receives; its handler raises."""

    def __init__(self, real: socket.socket, what: str) -> None:
        self.real = real
        self.what = what

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def send(self, data: memoryview) -> int:
        if self.what == "recv":
            return self.real.send(data)
        self.real.send(data[:10])
        raise KeyboardInterrupt

    def recv(self, size: int) -> bytes:
        self.real.recv(5)
        raise KeyboardInterrupt


@pytest.mark.parametrize("what", ["send", "recv"])
def test_nothing_follows_half_a_frame_after_a_signal(what: str) -> None:
    """What is left would be taken for the rest of it, and stored in a message."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        hub = BlockingHub(replace(QUICK, namesrv_addr=address), SYSTEM_CLOCK, None)
        first = Job(hub.ask(address, RequestCode.GET_BROKER_CONFIG))
        while not hub.connections[address].is_open:
            hub.work(None)
        connection, _ = server.accept()
        whole = len(connection.recv(1000))
        (link,) = hub._links.values()
        link.socket = Interrupted(link.socket, what)  # type: ignore[assignment]
        if what == "recv":
            connection.sendall(b"half an answer")
        second = Job(hub.ask(address, RequestCode.GET_BROKER_CONFIG))
        with pytest.raises(KeyboardInterrupt):
            hub.wait_for(second)
        for lost in (first, second):
            assert isinstance(lost.error, ClientError)
        assert address not in hub.connections
        rest = b""
        with contextlib.suppress(ConnectionResetError):  # what came was not read
            while data := connection.recv(1000):
                rest += data
        assert len(rest) == (10 if what == "send" else whole)
        connection.close()
        hub.close()


@pytest.fixture
def lets_go_of_idle_clients() -> Iterator[str]:
    """The address of a server that ends each connection behind its first answer."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    reader = frames.FrameReader()
                    while (request := reader.next_command()) is None:
                        data = connection.recv(1 << 16)
                        if not data:
                            break
                        reader.feed(data)
                    else:
                        connection.sendall(frames.encode(request.answer(0)))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("is_soon", [False, True])
def test_a_connection_that_ended_while_nobody_looked_is_not_used(
    lets_go_of_idle_clients: str, is_soon: bool
) -> None:
    """A server lets go of a client that is silent for two minutes: a program that seldom sends."""
    address = lets_go_of_idle_clients
    hub = BlockingHub(replace(QUICK, namesrv_addr=address), SYSTEM_CLOCK, None)
    hub.run(hub.ask(address, RequestCode.GET_BROKER_CONFIG))
    (link,) = hub._links.values()
    select.select([link.socket], [], [], 60)
    hub._left_ns -= 120 * SECOND
    if is_soon:
        hub.catch_up()
        assert hub.wait_for(Job(hub.ask(address, RequestCode.GET_BROKER_CONFIG))).code == 0
    else:
        assert hub.run(hub.ask(address, RequestCode.GET_BROKER_CONFIG)).code == 0
    hub.close()
    hub.catch_up()  # of no use any more, and no harm


@pytest.mark.parametrize("reads", [True, False])
def test_what_was_said_is_sent_before_the_end(reads: bool) -> None:
    """A one-way send is all that such a program may do: nobody else would wait for it."""
    found: list[int] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            ended.wait(0.3 if reads else SECONDS)
            while reads and (data := connection.recv(1 << 16)):
                found.append(len(data))

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(target=serve)
        thread.start()
        config = Config(namesrv_addr=address, send_msg_timeout=SECONDS if reads else 0.1)
        hub = BlockingHub(config, SYSTEM_CLOCK, None)
        hub.tell(address, RequestCode.SEND_MESSAGE_V2, {}, b"x" * 12_000_000)
        while not hub.connections[address].is_open:
            hub.work(None)
        hub.work(0)
        hub.close()
        ended.set()
        thread.join()
    assert sum(found) > 12_000_000 or not reads


@pytest.mark.parametrize("is_started", [False, True])
def test_a_client_that_was_closed_says_so(servers: Servers, is_started: bool) -> None:
    consumer = PushConsumer("G-Closed", servers.address, config=QUICK)
    consumer.subscribe("Closed")
    if is_started:
        consumer.start()
    consumer.close()
    for threads in (0, 2):
        with pytest.raises(Stopped):
            consumer.run(print, threads=threads)
    producer = Producer("PG", servers.address, config=QUICK)
    producer.close()
    with pytest.raises(Stopped):
        producer.work()


def test_ctrl_c_ends_the_wait_for_the_rest_but_not_the_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    hub = BlockingHub(Config(namesrv_addr="127.0.0.1:1"), SYSTEM_CLOCK, None)
    monkeypatch.setattr(hub, "_send_rest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hub.close()
    assert hub.is_closed
    with pytest.raises(ValueError, match="closed"):
        hub._selector.select(0)
