"""Values in the texts that upstream's tool makes of them: maps, dates, configurations, messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.output import Shown
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages.message import body_crc, encode

_MS_PER_S: Final = 1000
_TABLE_MIN: Final = 16
_INDENT: Final = "\t"

GROUP_FIELDS: Final = (
    "groupName",
    "consumeEnable",
    "consumeFromMinEnable",
    "consumeBroadcastEnable",
    "retryQueueNums",
    "retryMaxTimes",
    "brokerId",
    "whichBrokerWhenConsumeSlowly",
    "notifyConsumerIdsChangedEnable",
)
"""The fields of a group's configuration, in the order of upstream's class."""


def word(value: Any) -> str:
    """A value as ``String.valueOf`` has it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def hash_order(names: Iterable[str]) -> list[str]:
    """The names in the order in which a ``HashMap`` that they were put into gives them back."""
    kept = list(dict.fromkeys(names))
    size = _TABLE_MIN
    while len(kept) > size * 3 // 4:
        size *= 2

    def bucket(name: str) -> int:
        number = java_hash(name) & 0xFFFFFFFF
        # As HashMap.hash: the upper bits take part, as a small table looks only at the lower ones.
        return (number ^ number >> 16) & (size - 1)

    return sorted(kept, key=bucket)


def map_text(values: Mapping[str, str]) -> str:
    """A map, ``{a=1, b=2}``."""
    return "{" + ", ".join(f"{name}={values[name]}" for name in hash_order(values)) + "}"


def cut(text: str, length: int) -> str:
    """The beginning of a text that is too long for its column."""
    return text[:length]


# --- times ----------------------------------------------------------------------------------------


def to_millisecond(ms: int) -> Shown:
    """A local time with its milliseconds."""
    return Shown(f"{to_second(ms)},{ms % _MS_PER_S:03}", ms)


def to_second(ms: int) -> Shown:
    """A local time."""
    found = datetime.fromtimestamp(ms // _MS_PER_S)
    return Shown(found.strftime("%Y-%m-%d %H:%M:%S"), ms)


def compact_time(ms: int) -> str:
    """A local time in digits only."""
    return datetime.fromtimestamp(ms // _MS_PER_S).strftime("%Y%m%d%H%M%S") + f"{ms % 1000:03}"


def parse_time(text: str) -> int:
    """Milliseconds, or ``yyyy-MM-dd#HH:mm:ss:SSS``. Raises CommandFailed."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        day, _, ms = text.rpartition(":")
        found = datetime.strptime(day, "%Y-%m-%d#%H:%M:%S")
        return int(found.timestamp()) * _MS_PER_S + int(ms)
    except ValueError:
        raise CommandFailed(
            f"{text!r} is not a time: give milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS"
        ) from None


# --- configurations -------------------------------------------------------------------------------


def perm_text(perm: int) -> str:
    """A permission as ``RW-``."""
    return "".join(letter if perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))


def topic_config(fields: Mapping[str, Any]) -> str:
    """A topic's configuration, of the fields of the request that makes it."""
    return (
        f"TopicConfig [topicName={fields['topic']}, readQueueNums={fields['readQueueNums']}, "
        f"writeQueueNums={fields['writeQueueNums']}, perm={perm_text(int(fields['perm']))}, "
        f"topicFilterType={fields['topicFilterType']}, topicSysFlag={fields['topicSysFlag']}, "
        f"order={fields['order']}]"
    )


def group_config(config: Mapping[str, Any]) -> str:
    """A group's configuration."""
    shown = ", ".join(f"{name}={word(config.get(name))}" for name in GROUP_FIELDS)
    return f"SubscriptionGroupConfig [{shown}]"


# --- queues and messages --------------------------------------------------------------------------


def queue_text(queue: MessageQueue) -> str:
    """A queue."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.brokerName}, "
        f"queueId={queue.queueId}]"
    )


def message_text(message: Received) -> str:
    """A message with all that there is to it."""
    stored = message.stored
    # Java's bytes are signed.
    numbers = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    return (
        f"MessageExt [brokerName={message.broker or 'null'}, queueId={stored.queue}, "
        f"storeSize={len(encode(stored))}, queueOffset={stored.queue_offset}, "
        f"sysFlag={stored.sys_flag}, bornTimestamp={stored.born_ms}, "
        f"bornHost=/{stored.born_host}, storeTimestamp={stored.store_ms}, "
        f"storeHost=/{stored.store_host}, msgId={stored.offset_id}, "
        f"commitLogOffset={stored.physical_offset}, bodyCRC={body_crc(stored.body)}, "
        f"reconsumeTimes={stored.reconsume_times}, "
        f"preparedTransactionOffset={stored.prepared_offset}, "
        f"toString()=Message{{topic='{stored.topic}', flag={stored.flag}, "
        f"properties={map_text(message.properties)}, body=[{numbers}], "
        f"transactionId='{message.properties.get('__transactionId__', 'null')}'}}]"
    )


# --- fastjson's indented form ---------------------------------------------------------------------


def pretty(value: Any, depth: int = 0) -> str:
    """JSON with tabs: one line for each member of a map, but for keys that are numbers."""
    if isinstance(value, Mapping) and value:
        return _pretty_map(value, depth)
    # fastjson breaks lists of objects into lines, and leaves lists of texts in one.
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str):
        start = "\n" + _INDENT * (depth + 1)
        items = ",".join(start + pretty(item, depth + 1) for item in value)
        return f"[{items}\n{_INDENT * depth}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pretty_map(members: Mapping[Any, Any], depth: int) -> str:
    parts = []
    for key, value in members.items():
        if value is None:
            continue
        if isinstance(key, int):
            parts.append(f"{key}:{pretty(value, depth + 1)}")
        else:
            start = "\n" + _INDENT * (depth + 1)
            parts.append(f"{start}{json.dumps(key)}:{pretty(value, depth + 1)}")
    return "{" + ",".join(parts) + "\n" + _INDENT * depth + "}"
