"""A message of RocketMQ as the API shows it."""

from __future__ import annotations

from base64 import b64encode
from codecs import getincrementaldecoder
from typing import Any

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.protocol.messages.properties import RETRY_TOPIC


def record(message: Received, body_max: int) -> dict[str, Any]:
    """The message and the start of its body: ``body``, or ``body_base64`` if it is no text."""
    stored = message.stored
    return {
        "id": message.id,
        "offset_id": message.offset_id,
        "topic": stored.topic,
        "origin": message.properties.get(RETRY_TOPIC, stored.topic),
        "tags": message.tags,
        "keys": message.keys,
        "broker": message.broker,
        "queue": stored.queue,
        "offset": stored.queue_offset,
        "born_ms": stored.born_ms,
        "stored_ms": stored.store_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": stored.reconsume_times,
        "flag": stored.flag,
        "sys_flag": stored.sys_flag,
        "properties": message.properties,
        "size": len(message.body),
        **_body(message.body, body_max),
    }


def _body(body: bytes, most: int) -> dict[str, str]:
    shown = body[:most]
    try:
        # A character that the end cuts in two is left out; within, what is no UTF-8 is no text.
        text = getincrementaldecoder("utf-8")().decode(shown, final=len(shown) == len(body))
    except UnicodeDecodeError:
        return {"body_base64": b64encode(shown).decode()}
    return {"body": text}
