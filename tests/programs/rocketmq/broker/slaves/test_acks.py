"""The answers of a SYNC_MASTER as a program, with a slave, a slave that stands still, and none."""

from __future__ import annotations

import os
import signal
from typing import Any

from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import Producer
from penstock.rocketmq.client.produce.sending import SendResult, SendStatus
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import MqBroker, run_mqbroker, run_mqnamesrv
from tests.copies import until
from tests.rocketmq_pair import CONFIG, QUICK, TOPIC, ask, wait


def stored(broker: MqBroker, sent: SendResult) -> bytes:
    """What a broker has of a message that was sent."""
    return ask(broker.rocketmq, RequestCode.PULL_MESSAGE, consumerGroup="looks", topic=TOPIC,
               queueId=0, queueOffset=sent.queue_offset, maxMsgNums=1, sysFlag=4, commitOffset=0,
               suspendTimeoutMillis=0, subscription="*", subVersion=0).body  # fmt: skip


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
            sent: list[SendResult] = []

            def is_copied() -> bool:  # soon enough for an answer that says so
                sent.append(producer.send(Message(TOPIC, b"both")))
                return sent[-1].status is SendStatus.SEND_OK

            def is_late() -> bool:  # unless the slave stood still for so long that it is gone
                wait(is_copied, master)
                os.kill(slave.pid, signal.SIGSTOP)
                try:
                    sent.append(producer.send(Message(TOPIC, b"late")))
                    quick = producer.send_batch([Message(TOPIC, b"1"), Message(TOPIC, b"2")])
                finally:
                    os.kill(slave.pid, signal.SIGCONT)
                statuses = {each.status for each in (sent[-1], *quick)}
                assert SendStatus.SEND_OK not in statuses
                return statuses == {SendStatus.FLUSH_SLAVE_TIMEOUT}

            wait(is_copied, master)
            assert b"both" in stored(slave, sent[-1])
            wait(is_late, master)
            late = sent[-1]
            wait(is_copied, master)
            slave.kill()
            wait(lambda: not is_copied())
        for each, body in ((alone, b"alone"), (sent[0], b"both"), (late, b"late")):
            assert body in stored(master, each)
