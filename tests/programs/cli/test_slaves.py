"""A slave of RocketMQ's as a program: what it copies, serves and refuses, over TLS as well."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.promote import run_promote
from penstock.cluster.access import Access
from penstock.core.errors import PenstockError
from penstock.rocketmq.broker import names
from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import Producer
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.produce.transactions import TransactionState
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.testing.daemons import MqBroker, run_mqbroker
from tests.copies import ask as ask_http
from tests.copies import until
from tests.rocketmq_pair import (
    CONFIG,
    QUEUES,
    TOPIC,
    Pair,
    ask,
    brokers,
    committed,
    consume,
    pull,
    running_pair,
    until_whole,
    wait,
)
from tests.unit.net.certificates import Certificates
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import make_topic

WAITING = (names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.HALF_TOPIC)
"""Where messages are that readers are not given yet."""


def stored(broker: MqBroker, topic: str) -> int:
    """How many messages a topic has had."""
    status, answer = ask_http(broker, "GET", f"/log/offsets?topic={topic}")
    return sum(queue["end"] for queue in answer["queues"]) if status == 200 else 0


def send(producer: Producer, *numbers: int) -> None:
    """Messages with keys, to one queue after the other."""
    queues = producer.queues(TOPIC)
    assert len(queues) == QUEUES
    for number in numbers:
        message = Message(TOPIC, str(number).encode(), keys=f"key-{number}")
        producer.send(message, queue=queues[number % QUEUES])


def send_once_routed(pair: Pair, producer: Producer, number: int) -> None:
    """Send to the new master as soon as the producer has heard of it."""

    def is_sent() -> bool:
        producer.work(0.05)
        try:
            send(producer, number)
        except ClientError:
            return False
        return True

    wait(is_sent, pair.new)


def test_a_slave_copies_serves_reads_and_refuses_the_rest() -> None:
    with running_pair() as pair:
        make_topic(pair.old, TOPIC, QUEUES)
        with Producer("desk", pair.name_server.rocketmq, config=CONFIG) as producer:
            send(producer, *range(8))
        assert sorted(consume(pair.name_server, "billing", 8)) == sorted(
            str(number).encode() for number in range(8)
        )
        until_whole(pair)
        wait(lambda: committed(pair.new, "billing") == [2] * QUEUES, pair.new)
        both = {"0": pair.old.rocketmq, "1": pair.new.rocketmq}
        assert brokers(pair.name_server, TOPIC) == both
        finds_by_key_and_id(pair)
        refuses(pair)
        pair.old.kill()
        wait(lambda: brokers(pair.name_server, TOPIC) == {"1": pair.new.rocketmq})
        assert len(consume(pair.name_server, "audit", 8)) == 8
        wait(lambda: sum(committed(pair.new, "audit")) == 8, pair.new)


def finds_by_key_and_id(pair: Pair) -> None:
    answer = ask(pair.new.rocketmq, RequestCode.QUERY_MESSAGE, topic=TOPIC, key="key-3",
                 maxNum=32, beginTimestamp=0, endTimestamp=1 << 60)  # fmt: skip
    assert answer.code == 0, answer.remark
    assert b"key-3" in answer.body
    stored = pull(pair.new, 3).body
    physical = int.from_bytes(stored[28:36], "big")
    viewed = ask(pair.new.rocketmq, RequestCode.VIEW_MESSAGE_BY_ID, offset=physical)
    assert stored.startswith(viewed.body)
    assert viewed.body


def refuses(pair: Pair) -> None:
    address = pair.new.rocketmq
    sent = ask(address, RequestCode.SEND_MESSAGE, b"x", producerGroup="g", topic=TOPIC,
               defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=0, sysFlag=0,
               bornTimestamp=0, flag=0)  # fmt: skip
    assert sent.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "messages are put to the slave" in (sent.remark or "")
    ended = ask(address, RequestCode.END_TRANSACTION, producerGroup="g", tranStateTableOffset=0,
                commitLogOffset=0, commitOrRollback=8)  # fmt: skip
    assert ended.code == ResponseCode.SLAVE_NOT_AVAILABLE
    made = ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic="other", defaultTopic="TBW102",
               perm=6, readQueueNums=1, writeQueueNums=1, topicFilterType="SINGLE_TAG")  # fmt: skip
    assert made.code == ResponseCode.SYSTEM_ERROR
    assert "slave broker" in (made.remark or "")


def test_a_promoted_slave_has_all_that_its_master_had() -> None:
    with running_pair() as pair:
        make_topic(pair.old, TOPIC, QUEUES)
        checked: list[bytes] = []

        def check(message: object) -> TransactionState:
            checked.append(message.body)  # type: ignore[attr-defined]
            return TransactionState.COMMIT

        with Producer("desk", pair.name_server.rocketmq, config=CONFIG, on_check=check) as producer:
            send(producer, *range(4))
            assert len(consume(pair.name_server, "billing", 4)) == 4
            wait(lambda: committed(pair.new, "billing") == [1] * QUEUES, pair.new)
            producer.send(Message(TOPIC, b"level", delay_level=2))
            producer.send(Message(TOPIC, b"timer", delay=5))
            half = Message(TOPIC, b"half")
            producer.send_in_transaction(half, lambda _: TransactionState.UNKNOWN)
            wait(lambda: all(stored(pair.new, topic) for topic in WAITING), pair.new)
            until_whole(pair)
            pair.old.kill()
            run_promote(pair.new.copies, Access())
            until(pair.new, role="primary", epoch=2)
            wait(lambda: brokers(pair.name_server, TOPIC) == {"0": pair.new.rocketmq}, pair.new)
            assert committed(pair.new, "billing") == [1] * QUEUES
            send_once_routed(pair, producer, 4)

            def is_committed() -> bool:  # checked by the new master, whatever the old one had asked
                producer.work(0.05)
                return any(b"half" in pull(pair.new, queue).body for queue in range(QUEUES))

            wait(is_committed, pair.new)
            assert b"half" in checked
        wanted = {b"level", b"timer", b"half", b"4"}
        came: set[bytes] = set()
        for _ in range(3):  # what the old one had delivered just before may come again
            came.update(consume(pair.name_server, "billing", len(wanted - came)))
            if came >= wanted:
                break
        assert came == wanted
        pair.old.start()
        fenced = until(pair.old, role="fenced", fenced_epoch=2)
        assert fenced["primary"] == pair.new.copies
        assert brokers(pair.name_server, TOPIC) == {"0": pair.new.rocketmq}


def test_a_change_over_loses_nothing_and_the_old_master_becomes_the_slave() -> None:
    with running_pair() as pair:
        make_topic(pair.old, TOPIC, QUEUES)
        with Producer("desk", pair.name_server.rocketmq, config=CONFIG) as producer:
            send(producer, *range(4))
            until_whole(pair)
            status, answer = ask_http(pair.new, "POST", "/replication/promote")
            assert (status, answer["whole"], answer["lag_messages"]) == (200, True, 0)
            until(pair.new, role="primary", epoch=2)
            until(pair.old, role="fenced")
            wait(lambda: brokers(pair.name_server, TOPIC) == {"0": pair.new.rocketmq}, pair.new)
            send_once_routed(pair, producer, 5)
        pair.old.properties.update(brokerRole="SLAVE", brokerId=1)
        pair.old.restart()
        until(pair.old, role="follower", whole=True, epoch=2)
        both = {"0": pair.new.rocketmq, "1": pair.old.rocketmq}
        wait(lambda: brokers(pair.name_server, TOPIC) == both, pair.old)
        wait(lambda: len(pull(pair.old, 1).body) == len(pull(pair.new, 1).body), pair.old)
        config = ask(pair.old.rocketmq, RequestCode.GET_ALL_TOPIC_CONFIG)
        assert TOPIC in fastjson.loads(config.body)["topicConfigTable"]


SECONDS = 60


def properties(certificates: Certificates, **more: Any) -> dict[str, Any]:
    return {
        "tls.server.certPath": certificates.cert, "tls.server.keyPath": certificates.key,
        "tls.ha.enable": "true", "tls.ha.trustCertPath": certificates.ca,
        "tls.ha.need.client.auth": "require", **more,
    }  # fmt: skip


def answer(broker: MqBroker, context: ssl.SSLContext) -> bytes:
    """The first line of what the port for slaves answers. Raises OSError."""
    host, _, port = broker.copies.rpartition(":")
    with (
        socket.create_connection((host, int(port)), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(b"GET /replication HTTP/1.0\r\n\r\n")
        return secure.recv(1 << 16).split(b"\r\n")[0]


def test_a_pair_copies_and_changes_over_by_certificates(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    access = Access(tls=True, root_ca_file=certificates.ca, cert=certificates.cert,
                    key=certificates.key)  # fmt: skip
    with running_pair(**properties(certificates)) as pair:
        assert answer(pair.old, certificates.context("known")).endswith(b"200 OK")
        for client in ("", "unknown"):
            with pytest.raises(OSError, match=r"certificate|alert|EOF|reset"):
                answer(pair.old, certificates.context(client))
        with pytest.raises(PenstockError):
            run_promote(pair.new.copies, Access())
        run_promote(f"https://{pair.new.copies}", access)
        until(pair.new, role="primary", epoch=2)
        fenced = until(pair.old, role="fenced", fenced_epoch=2)
        assert fenced["primary"] == f"https://{pair.new.copies}"
        pair.old.properties.update(brokerRole="SLAVE", brokerId=1)
        pair.old.restart()
        until(pair.old, role="follower", whole=True, epoch=2)
        wait(lambda: brokers(pair.name_server, "TBW102") == {
            "0": pair.new.rocketmq, "1": pair.old.rocketmq}, pair.old)  # fmt: skip


def test_a_slave_copies_from_nobody_whom_it_cannot_verify(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    ours, others = Certificates(tmp_path), Certificates(tmp_path / "others")
    with run_mqbroker(**properties(others)) as false_master:
        slave = properties(ours, brokerRole="SLAVE", brokerId=1,
                           haMasterAddress=false_master.copies)  # fmt: skip
        with run_mqbroker(**slave) as broker:
            broker.wait_for("cannot follow https://" + false_master.copies)
            assert "certificate verify failed" in broker.log()


def test_files_that_cannot_be_read_are_named_at_the_start(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    missing = properties(certificates, **{"tls.ha.trustCertPath": tmp_path / "no.pem"})
    with (
        pytest.raises(AssertionError, match=r"the broker cannot start - .*no\.pem"),
        run_mqbroker(name_server=unused_address(), **missing),
    ):
        raise AssertionError("it has started")
