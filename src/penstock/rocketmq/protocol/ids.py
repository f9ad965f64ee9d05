"""Addresses and ids in RocketMQ's forms (RocketMQ spec 3.4, 3.5)."""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from reprlib import repr as shortened
from typing import Final, NamedTuple

from penstock.rocketmq.protocol.errors import BodyError

_PORT_AND_OFFSET = struct.Struct(">iq")
_LONG_MASK: Final = (1 << 64) - 1
_IPV4_ID_LENGTH: Final = 32
_IPV6_ID_LENGTH: Final = 56


class Host(NamedTuple):
    """An address: 4 or 16 bytes, and a port."""

    ip: bytes
    port: int

    @classmethod
    def of(cls, ip: str, port: int) -> Host:
        """The host of a socket's peer. IPv4 stays IPv4 on an IPv6 socket, for old clients.

        Raises ValueError for names.
        """
        address = ipaddress.ip_address(ip.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return cls(address.packed, port)

    @classmethod
    def parse(cls, text: str) -> Host:
        """From ``ip:port``, IPv6 with or without brackets. Raises ValueError for names."""
        ip, _, port = text.rpartition(":")
        return cls(ipaddress.ip_address(ip.strip("[]")).packed, int(port))

    @property
    def is_ipv6(self) -> bool:
        return len(self.ip) == 16

    def __str__(self) -> str:
        ip = str(ipaddress.ip_address(self.ip))
        return f"[{ip}]:{self.port}" if self.is_ipv6 else f"{ip}:{self.port}"


NO_HOST: Final = Host(bytes(4), 0)
"""The host that stands for an unknown one."""


class OffsetId(NamedTuple):
    """The place where a message is stored; its text is the ``msgId`` that brokers give."""

    host: Host
    offset: int

    @classmethod
    def parse(cls, text: str) -> OffsetId:
        """Raise BodyError for anything but 32 or 56 hexadecimal digits."""
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        if len(text) not in (_IPV4_ID_LENGTH, _IPV6_ID_LENGTH) or len(data) * 2 != len(text):
            raise BodyError(f"no message id: {shortened(text)}")
        port, offset = _PORT_AND_OFFSET.unpack_from(data, len(data) - 12)
        return cls(Host(data[:-12], port), offset)

    def __str__(self) -> str:
        return f"{host_digits(self.host)}{self.offset & _LONG_MASK:016X}"


@lru_cache(maxsize=256)
def host_bytes(host: Host) -> bytes:
    """A host as stored messages have it: its IP, and its port in 4 bytes."""
    return host.ip + (host.port & 0xFFFFFFFF).to_bytes(4)


def host_digits(host: Host) -> str:
    """The first digits of the ids of all messages of this broker; 16 digits follow."""
    return host_bytes(host).hex().upper()


def java_hash(text: str) -> int:
    """``String.hashCode()`` of Java, a signed 32-bit number; what tag filters compare."""
    value = 0
    # Java's characters are units of UTF-16, half a surrogate pair among them.
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
