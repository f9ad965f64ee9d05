"""The answers of a SYNC_MASTER as a program, with a slave, a slave that stands still, and none."""

from __future__ import annotations

import os
import signal
from typing import Any

from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import Producer
from penstock.rocketmq.client.produce.sending import SendStatus
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv
from tests.copies import until
from tests.rocketmq_pair import CONFIG, QUICK, TOPIC, pull, wait


def test_answers_say_whether_a_slave_has_the_message() -> None:
    sync: dict[str, Any] = {
        **QUICK,
        "brokerRole": "SYNC_MASTER",
        "slaveTimeout": 500,
        "defaultTopicQueueNums": 1,
    }
    with (
        run_mqnamesrv() as servers,
        run_mqbroker(name_server=servers.rocketmq, **sync) as master,
        Producer("desk", servers.rocketmq, config=CONFIG) as producer,
    ):
        master.wait_for("registered")
        alone = producer.send(Message(TOPIC, b"alone"))
        assert alone.status is SendStatus.SLAVE_NOT_AVAILABLE
        with run_mqbroker(name_server=servers.rocketmq, brokerRole="SLAVE", brokerId=1,
                          haMasterAddress=master.copies) as slave:  # fmt: skip
            until(slave, whole=True)
            wait(lambda: producer.send(Message(TOPIC, b"x")).status is SendStatus.SEND_OK, master)
            assert producer.send(Message(TOPIC, b"both")).status is SendStatus.SEND_OK
            assert b"both" in pull(slave, 0).body
            os.kill(slave.pid, signal.SIGSTOP)
            try:
                late = producer.send(Message(TOPIC, b"late"))
                quick = producer.send_batch([Message(TOPIC, b"1"), Message(TOPIC, b"2")])
            finally:
                os.kill(slave.pid, signal.SIGCONT)
            assert late.status is SendStatus.FLUSH_SLAVE_TIMEOUT
            assert {each.status for each in quick} == {SendStatus.FLUSH_SLAVE_TIMEOUT}
            wait(lambda: producer.send(Message(TOPIC, b"x")).status is SendStatus.SEND_OK, master)
            slave.kill()
            wait(lambda: producer.send(Message(TOPIC, b"x")).status is not SendStatus.SEND_OK)
        bodies = pull(master, 0).body
        assert all(each in bodies for each in (b"alone", b"both", b"late"))
