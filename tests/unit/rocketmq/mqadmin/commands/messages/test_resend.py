from __future__ import annotations

from penstock.rocketmq.client.produce.sending import SendResult, SendStatus
from penstock.rocketmq.mqadmin.commands.messages.resend import result_text
from penstock.rocketmq.protocol.message_queue import MessageQueue


def test_a_result_reads_as_upstreams() -> None:
    queue = MessageQueue("a", 0, "T")
    result = SendResult(SendStatus.SEND_OK, "U1", "OFFSET", queue, 3)
    assert result_text(result) == (
        "SendResult [sendStatus=SEND_OK, msgId=U1, offsetMsgId=OFFSET, messageQueue=MessageQueue "
        "[topic=T, brokerName=a, queueId=0], queueOffset=3]"
    )
