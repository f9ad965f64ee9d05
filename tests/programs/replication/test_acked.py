"""Publishes whose OK waits for copies, at real nodes."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any

import pytest

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.daemons import Daemon, run_nsqd
from tests.copies import WAIT_S_MAX, ask, until, until_copied
from tests.dialects.test_programs import rocketmq_port
from tests.forwarding import wait_until
from tools.harness.rocketmq.raw_client import RawClient

ACKED = "--replicas-acked=1"
ALONE = "publishes are acknowledged without"


def until_in_force(primary: Daemon, number: int) -> None:
    """Wait until an OK of the primary says that there are this many copies."""
    for _ in range(WAIT_S_MAX * 20):
        if ask(primary, "GET", "/replication")[1].get("replicas_in_force") == number:
            return
        time.sleep(0.05)
    raise AssertionError(primary.log()[-3000:])


def end(daemon: Daemon) -> int:
    """The end of the log of topic t, as readers see it."""
    status, answer = ask(daemon, "GET", "/log/offsets?topic=t")
    return int(answer["queues"][0]["end"]) if status == 200 else -1


def publish(daemon: Daemon, body: bytes) -> tuple[int, Any]:
    status, answer = ask(daemon, "POST", "/pub?topic=t", body)
    return status, answer if status == 200 else answer["message"]


def publish_copied(daemon: Daemon, body: bytes) -> None:
    """Publish until it is acknowledged: on a busy machine a copy that is there may not ask for
    seconds, and is taken for gone meanwhile.
    """
    for _ in range(WAIT_S_MAX * 20):
        if publish(daemon, body) == (200, b"OK"):
            return
        time.sleep(0.05)
    raise AssertionError(daemon.log()[-3000:])


@pytest.mark.parametrize("level", ["write", "fsync"])
def test_an_ok_is_said_when_the_copy_has_the_message(level: str) -> None:
    flags = (f"--durability={level}", ACKED)
    with run_nsqd(*flags) as old:
        assert publish(old, b"0") == (503, "NOT_COPIED")
        until(old, epoch=0, replicas_acked=1, replicas_in_force=0, replicas_missing="refuse")
        with socket.create_connection(("127.0.0.1", old.tcp_port), WAIT_S_MAX) as client:
            client.sendall(b"  V2PUB t\n\0\0\0\1x")
            refused = b"E_PUB_FAILED PUB failed 0 of 1 copies follow"
            answer = client.recv(8 + len(refused), socket.MSG_WAITALL)
            assert answer.endswith(refused), answer
        with run_nsqd(f"--follow={old.http}", *flags) as new:
            until_in_force(old, 1)
            for number in range(20):
                publish_copied(old, b"%d" % number)
                assert end(new) >= number + 1, "the copy has it by now"
            count = end(old)
            assert count >= 20, "what was not acknowledged may be there"
            old.kill()
            assert ask(new, "POST", "/replication/promote")[0] == 200
            until(new, role="primary", epoch=2, before=old.http)
            assert end(new) == count
            assert publish(new, b"20") == (503, "NOT_COPIED")


def test_a_message_that_is_not_copied_is_neither_acknowledged_nor_seen() -> None:
    with (
        run_nsqd(ACKED, "--replicas-timeout=2s") as old,
        run_nsqd(f"--follow={old.http}") as new,
    ):
        for _ in range(10):
            until_in_force(old, 1)
            publish_copied(old, b"0")
            before = end(old)
            if waits_for_a_stopped_copy(old, new):
                break
        else:
            raise AssertionError(old.log()[-3000:])
        until_in_force(old, 1)
        publish_copied(old, b"2")
        assert end(old) >= before + 2, "what was not acknowledged may be there"


def waits_for_a_stopped_copy(old: Daemon, new: Daemon) -> bool:
    """Whether a publish was taken, which a busy machine may keep up until the copy is given up."""
    before = end(old)
    os.kill(new.pid, signal.SIGSTOP)
    try:
        assert publish(old, b"1") == (503, "NOT_COPIED")
        assert end(old) == before
        waiting = ask(old, "GET", "/replication")[1]["messages_waiting"]
        until_in_force(old, 0)
        assert "0 of 1 copies follow: publishes are refused" in old.log()
    finally:
        os.kill(new.pid, signal.SIGCONT)
    return bool(waiting == 1)


def test_a_node_may_go_on_without_copies_and_says_so() -> None:
    with run_nsqd(ACKED, "--replicas-missing=go-on", "--replicas-timeout=60s") as old:
        assert publish(old, b"0") == (200, b"OK")
        assert end(old) == 1
        with run_nsqd(f"--follow={old.http}") as new:
            was_alone = True
            while was_alone:  # in the midst of it, as the copy had no processor for seconds
                until_in_force(old, 1)
                said = old.log().count(ALONE)
                assert publish(old, b"1") == (200, b"OK")
                was_alone = old.log().count(ALONE) > said
            assert end(new) == end(old) >= 2
        until_in_force(old, 0)
        assert ALONE in old.log()
        assert publish(old, b"2") == (200, b"OK")


def test_a_copy_that_keeps_less_than_the_node_does_not_count() -> None:
    with run_nsqd(ACKED, "--durability=fsync") as old, run_nsqd(f"--follow={old.http}") as new:
        until(new, whole=True, error=None)
        assert publish(old, b"0") == (503, "NOT_COPIED")


def test_rocketmq_s_sends_wait_for_the_copy_as_nsq_s_publishes_do() -> None:
    flags = (ACKED, "--replicas-timeout=2s", "--rocketmq-address=127.0.0.1:0")
    with run_nsqd(*flags) as old:
        client = RawClient(rocketmq_port(old))

        def send(topic: str = "t", **fields: str) -> Command:
            return client.ask(
                RequestCode.SEND_MESSAGE, b"x", producerGroup="PG", topic=topic,
                defaultTopic="TBW102", defaultTopicQueueNums=1, queueId=0, sysFlag=0, flag=0,
                bornTimestamp=1, properties=properties.join(fields), reconsumeTimes=0,
            )  # fmt: skip

        for _ in range(3):  # the first by the long way, later ones by the straight one
            refused = send()
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "0 of 1 copies follow" in str(refused.remark)
        assert end(old) == 0
        with run_nsqd(f"--follow={old.http}", *flags) as new:
            until_in_force(old, 1)
            wait_until(lambda: send().code == ResponseCode.SUCCESS, old.log)
            for _ in range(9):
                before = end(new)
                if send().code == ResponseCode.SUCCESS:
                    assert end(new) > before, "the copy has it by now"
            until_copied(old, new, "t")
            os.kill(new.pid, signal.SIGSTOP)
            try:
                seen = end(old)
                late = send()
                assert late.code in (ResponseCode.FLUSH_SLAVE_TIMEOUT,
                                     ResponseCode.SERVICE_NOT_AVAILABLE)  # fmt: skip
                assert end(old) == seen, "nobody sees what is not copied"
            finally:
                os.kill(new.pid, signal.SIGCONT)
            if late.code == ResponseCode.FLUSH_SLAVE_TIMEOUT:
                assert (late.ext or {})["queueOffset"] == str(seen)
                wait_until(lambda: end(old) > seen, old.log)
        client.close()
