"""Requests without an event loop, against a broker in a thread."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from penstock.net.http.client.keep_alive import Tls
from penstock.net.tls.tls_layer import client_context
from penstock.rocketmq.blocking import Account, RemotingLink
from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.signing import signature
from tests.programs.rocketmq.conftest import serving
from tests.unit.spark.rocketmq.scripted_broker import ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def link(broker: ScriptedBroker) -> Iterator[RemotingLink]:
    link = RemotingLink(broker.address, 30.0)
    yield link
    link.close()


def test_answers_come_in_the_order_of_the_requests(
    broker: ScriptedBroker, link: RemotingLink
) -> None:
    broker.queue().append([b"x"] * 10)
    asked: list[tuple[int, dict[str, object], bytes]] = [
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "t", "queueId": 0, "timestamp": 0}, b""),
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "nope"}, b""),
    ]
    assert [answer.code for answer in link.ask_all(asked)] == [0, 17]
    assert link.ask(*asked[1][:2]).code == 17
    assert broker.connections == 1


def test_a_kept_connection_that_was_closed_is_made_again() -> None:
    with ScriptedBroker() as first:
        link = RemotingLink(first.address, 30.0)
        assert link.ask(RequestCode.HEART_BEAT, {}, b"{}").code == 0
    # The server's threads live on; what closes is the other end.
    assert link._socket is not None
    link._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionRefusedError):
        link.ask(RequestCode.HEART_BEAT, {}, b"{}")


def test_requests_of_an_account_are_signed(broker: ScriptedBroker) -> None:
    link = RemotingLink(broker.address, 30.0, account=Account("somebody", "secret-key"))
    link.ask(RequestCode.HEART_BEAT, {}, b"{}")
    (request,) = broker.requests
    assert request.text("AccessKey") == "somebody"
    assert request.text("Signature") == signature(request, "secret-key").decode()
    link.close()


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "not RocketMQ"), (b"", "closed before the answer")],
    ids=["another protocol", "nothing"],
)
def test_an_answer_that_makes_no_sense(data: bytes, said: str) -> None:
    with serving(lambda connection: connection.recv(65536) and connection.sendall(data)) as address:
        link = RemotingLink(address, 30.0)
        with pytest.raises(OSError, match=said):
            link.ask(RequestCode.HEART_BEAT, {})


def test_an_address_that_is_none() -> None:
    with pytest.raises(OSError, match=r"^a\.\.b cannot be a host's name$"):
        RemotingLink("a..b:9876", 30.0).ask(1, {})
    with pytest.raises(OSError, match="missing port"):
        RemotingLink("broker-a", 1.0).ask(RequestCode.HEART_BEAT, {})


def test_a_server_with_tls_and_a_name_of_its_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate = authority.issue_cert("broker.example")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(server)
    seen: list[str | None] = []

    def serve(connection: socket.socket) -> None:
        with server.wrap_socket(connection, server_side=True) as secure:
            seen.append(secure.version())

    tls = Tls(client_context(str(tmp_path / "ca.pem")), "broker.example")
    with serving(serve) as address, pytest.raises(ConnectionError):
        RemotingLink(address, 30.0, tls=tls).ask(RequestCode.HEART_BEAT, {})
    assert [each and each[:5] for each in seen] == ["TLSv1"]


def test_more_requests_than_a_broker_answers_before_it_is_read() -> None:
    """It reads no request while its answers, as large, are not read."""

    def serve(connection: socket.socket) -> None:
        reader = frames.FrameReader()
        while data := connection.recv(65536):
            reader.feed(data)
            while (request := reader.next_command()) is not None:
                connection.sendall(frames.encode(request.answer(body=request.body)))

    bodies = [b"%05d" % number * 400 for number in range(10_000)]
    with serving(serve) as address:
        link = RemotingLink(address, 60.0)
        answers = link.ask_all([(RequestCode.SEND_MESSAGE_V2, {}, body) for body in bodies])
        link.close()
    assert [answer.body for answer in answers] == bodies
