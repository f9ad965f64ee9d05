"""Sending a message once more."""

from __future__ import annotations

from dataclasses import replace

from penstock.rocketmq.client.admin.messages import again
from penstock.rocketmq.client.blocking.producer import Producer
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.produce.sending import SendResult
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.java_text import queue_text
from penstock.rocketmq.mqadmin.output import Output


def resend(admin: Admin, message: Received, unit: str, out: Output) -> None:
    """Send a message to its topic again, as a new message with the same keys, tags and user
    properties.
    """
    config = replace(admin.config, unit_name=unit)
    with Producer("ReSendMsgById", config=config) as producer:
        result = producer.send(again(message))
    told = f"prepare resend msg. originalMsgId={message.offset_id}"
    out.say(f"{told}{result_text(result)}", originalMsgId=message.offset_id, msgId=result.id)


def result_text(result: SendResult) -> str:
    """The outcome of a send, as upstream prints it."""
    return (
        f"SendResult [sendStatus={result.status.name}, msgId={result.id}, "
        f"offsetMsgId={result.offset_id}, messageQueue={queue_text(result.queue)}, "
        f"queueOffset={result.queue_offset}]"
    )
