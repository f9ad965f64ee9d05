"""Notices to the service manager that started the program, in systemd's protocol (sd_notify(3)).

    manager = ServiceManager.of(os.environ)
    manager.ready(loop)
    ...
    manager.stopping()

Without a service manager nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Final

from penstock.core.units import MICROSECOND, SECOND

SEND_S_MAX: Final = 1.0
"""Patience with a manager that does not read its socket."""

logger = logging.getLogger("penstock.service")


class ServiceManager:
    """The manager behind a datagram socket; ``of`` finds it in the environment."""

    def __init__(self, address: str, watchdog_s: float) -> None:
        """An empty address: no manager; 0 s: it does not watch over the program."""
        self._address = address
        self._watchdog_s = watchdog_s

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """The manager that the environment names, which is taken out: children are not served."""
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "0")
        watched = environment.pop("WATCHDOG_PID", "") or str(os.getpid())
        if address and not address.startswith(("/", "@")):
            logger.warning(
                "NOTIFY_SOCKET=%s is neither a path nor an abstract socket: the service "
                "manager is not told when the program is ready",
                address,
            )
            address = ""
        is_watched = microseconds.isdecimal() and watched == str(os.getpid())
        watchdog_s = int(microseconds) * MICROSECOND / SECOND if is_watched else 0.0
        return cls(address, watchdog_s)

    def ready(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell that the program serves and, from now on, that it lives while the loop turns."""
        self._send("READY=1")
        if self._address and self._watchdog_s:
            self._live(loop)

    def stopping(self) -> None:
        """Tell that the program ends by itself; signs of life go on, as saving may take long."""
        self._send("STOPPING=1")

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        self._send("WATCHDOG=1")
        # Half of the time, as sd_watchdog_enabled(3) advises: one sign may come late.
        loop.call_later(self._watchdog_s / 2, self._live, loop)

    def _send(self, state: str) -> None:
        if not self._address:
            return
        # systemd writes the null byte before an abstract name as @.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_S_MAX)
                sender.sendto(state.encode(), address)
        except OSError as error:
            logger.warning(
                "%s does not reach the service manager at NOTIFY_SOCKET=%s: %s",
                state,
                self._address,
                error,
            )
