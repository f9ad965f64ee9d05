"""A broker's report of its topics to name servers: the body of REGISTER_BROKER.

See RocketMQ spec 2.6.

Plain JSON, or compressed: a zlib stream of sized JSON texts, each topic as one line of words.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from reprlib import repr as shortened
from typing import Any, Final

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.errors import BodyError

INFLATED_MAX: Final = 64 * 1024 * 1024
_LENGTH = struct.Struct(">i")
VIP_DISTANCE: Final = 2
"""Clients with a VIP channel talk to the port that is lower by this number."""
_V5_0_0: Final = 413
"""Brokers since then send attributes and mappings; older name servers refuse what has them."""


@dataclass(slots=True)
class TopicConfig:
    """The configuration of a topic on one broker."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = 6
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "attributes": self.attributes,
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    @classmethod
    def from_json(cls, value: Any, name: str = "") -> TopicConfig:
        """Parse a topic's configuration of JSON. Raises BodyError."""
        if not isinstance(value, dict):
            raise BodyError(f"the topic configuration {shortened(value)} is not an object")
        attributes = value.get("attributes") or {}
        if not isinstance(attributes, dict):
            raise BodyError("the attributes of a topic are not a map")
        return cls(
            str(value.get("topicName") or name),
            _integer(value, "readQueueNums", 16),
            _integer(value, "writeQueueNums", 16),
            _integer(value, "perm", 6),
            str(value.get("topicFilterType") or "SINGLE_TAG"),
            # The name up to 4.8 (RocketMQ spec 10).
            _integer(value, "topicSysFlag", _integer(value, "topicSynFlag", 0)),
            value.get("order") is True,
            {str(key): str(given) for key, given in attributes.items()},
        )

    def as_line(self, *, with_attributes: bool = False) -> str:
        """The words of the compressed form."""
        words = [self.name, self.read_queues, self.write_queues, self.perm, self.filter_type]
        if with_attributes:
            words.append(fastjson.dumps(self.attributes).decode())
        return " ".join(str(word) for word in words)

    @classmethod
    def from_line(cls, line: str) -> TopicConfig:
        """Parse a topic's configuration of one line. Raises BodyError if a word is missing."""
        # Five times, as the attributes at the end are JSON and may have blanks.
        words = line.split(" ", 5)
        try:
            name, read_queues, write_queues, perm, filter_type = words[:5]
            attributes = fastjson.loads(words[5].encode()) if len(words) > 5 else {}
            return cls(
                name,
                int(read_queues),
                int(write_queues),
                int(perm),
                filter_type,
                attributes=attributes if isinstance(attributes, dict) else {},
            )
        except ValueError:
            raise BodyError(f"the topic configuration {shortened(line)} makes no sense") from None


@dataclass(slots=True)
class Registration:
    """A broker's topics and their version, as JSON object with ``counter`` and ``timestamp``."""

    data_version: dict[str, Any]
    topics: dict[str, TopicConfig]
    filter_servers: list[str] = field(default_factory=list)


def encode(registration: Registration) -> bytes:
    """The body as plain JSON."""
    return fastjson.dumps(
        {
            "filterServerList": registration.filter_servers,
            "topicConfigSerializeWrapper": {
                "dataVersion": registration.data_version,
                "topicConfigTable": {
                    name: config.as_json() for name, config in registration.topics.items()
                },
            },
        }
    )


def encode_compressed(registration: Registration, version: int) -> bytes:
    """The compressed body, for the header's ``version``."""
    parts = [_sized(fastjson.dumps(registration.data_version))]
    parts.append(_LENGTH.pack(len(registration.topics)))
    is_v5 = version >= _V5_0_0
    lines = (config.as_line(with_attributes=is_v5) for config in registration.topics.values())
    parts += [_sized(line.encode()) for line in lines]
    parts.append(_sized(fastjson.dumps(registration.filter_servers)))
    if is_v5:
        parts.append(_LENGTH.pack(0))
    return zlib.compress(b"".join(parts))


def decode(body: bytes) -> Registration:
    """Decode a plain body. Raises BodyError."""
    value = fastjson.loads(body) if body else {}
    wrapper = value.get("topicConfigSerializeWrapper") if isinstance(value, dict) else None
    if not isinstance(wrapper, dict):
        wrapper = value if isinstance(value, dict) else {}  # brokers before V3_0_11 send only it
    table = wrapper.get("topicConfigTable") or {}
    if not isinstance(table, dict):
        raise BodyError("topicConfigTable is not a map")
    topics = {str(name): TopicConfig.from_json(config, str(name)) for name, config in table.items()}
    servers = value.get("filterServerList") if isinstance(value, dict) else None
    return Registration(_version(wrapper.get("dataVersion")), topics, _servers(servers or []))


def decode_compressed(body: bytes) -> Registration:
    """Decode a compressed body, but for the mappings at its end. Raises BodyError."""
    inflater = zlib.decompressobj()
    try:
        # Bounded: a registration of kilobytes may be made to unpack to gigabytes.
        data = inflater.decompress(body, INFLATED_MAX)
    except zlib.error as error:
        raise BodyError(f"a registration that cannot be inflated: {error}") from None
    if inflater.unconsumed_tail:
        raise BodyError(f"a registration of more than {INFLATED_MAX} bytes")
    reader = _Reader(data)
    version = _version(fastjson.loads(reader.sized()))
    topics = {}
    for _ in range(reader.integer()):
        config = TopicConfig.from_line(reader.sized().decode("utf-8", "replace"))
        topics[config.name] = config
    return Registration(version, topics, _servers(fastjson.loads(reader.sized())))


class _Reader:
    """Sized texts one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def integer(self) -> int:
        try:
            (value,) = _LENGTH.unpack_from(self._data, self._place)
        except struct.error:
            raise BodyError("a registration that is cut short") from None
        self._place += _LENGTH.size
        return int(value)

    def sized(self) -> bytes:
        length = self.integer()
        end = self._place + length
        if length < 0 or end > len(self._data):
            raise BodyError(f"a length of {length} in a registration of {len(self._data)} bytes")
        data = self._data[self._place : end]
        self._place = end
        return data


def _sized(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _version(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {"counter": 0, "timestamp": 0}


def _servers(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise BodyError("the filter servers are not a list")
    return [str(server) for server in value]


def _integer(value: dict[Any, Any], name: str, default: int) -> int:
    found = value.get(name, default)
    if type(found) is not int:
        raise BodyError(f"{name} of a topic is not a number: {shortened(found)}")
    return found
