"""The identity of a client: its address, its id, and the ids that it gives to messages."""

from __future__ import annotations

import os
import socket
from calendar import timegm
from itertools import count
from time import gmtime
from typing import Final

from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND, SECOND
from penstock.rocketmq.client.config import Config

_instances: Final = count()
_COUNTER_MASK: Final = 0xFFFF


def local_ip() -> str:
    """The address by which this machine reaches others; 127.0.0.1 when it reaches none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def client_id(config: Config, clock: Clock) -> str:
    """A client's id, ``10.0.0.1@4711#52938`` for one; each is counted, so that no two are alike."""
    instance = config.instance_name
    if not instance:
        # As Java's changeInstanceNameToPID; the count tells clients apart that one tick has made.
        instance = f"{os.getpid()}#{clock.monotonic_ns() + next(_instances)}"
    unit = f"@{config.unit_name}" if config.unit_name else ""
    return f"{config.client_ip or local_ip()}@{instance}{unit}"


class UniqueIds:
    """Ids of messages in Java's layout: address, process, a number of this object, the milliseconds
    of the month, a counter.
    """

    def __init__(self, clock: Clock, ip: str) -> None:
        self._clock = clock
        self._counter = 0
        # Java has a class loader's hash here (RocketMQ spec 3.4); any number will do that differs
        # by process and object.
        number = next(_instances) ^ int.from_bytes(os.urandom(4))
        self._prefix = (
            f"{_packed(ip).hex().upper()}{os.getpid() & 0xFFFF:04X}{number & 0xFFFFFFFF:08X}"
        )
        self._month_ms = self._month_ends_ms = 0

    def next(self) -> str:
        """Another id."""
        now = self._clock.wall_ns() // MILLISECOND
        if not self._month_ms <= now < self._month_ends_ms:
            self._turn_month(now)
        self._counter = self._counter + 1 & _COUNTER_MASK
        return f"{self._prefix}{now - self._month_ms & 0xFFFFFFFF:08X}{self._counter:04X}"

    def _turn_month(self, now_ms: int) -> None:
        year, month = gmtime(now_ms * MILLISECOND // SECOND)[:2]
        ms = SECOND // MILLISECOND
        self._month_ms = timegm((year, month, 1, 0, 0, 0)) * ms
        self._month_ends_ms = timegm((year + month // 12, month % 12 + 1, 1, 0, 0, 0)) * ms


def _packed(ip: str) -> bytes:
    try:
        return socket.inet_pton(socket.AF_INET, ip)
    except OSError:
        return socket.inet_aton("127.0.0.1")
