"""TLS contexts that follow their files, so that a certificate is renewed without a restart."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.errors import ConfigError
from penstock.core.units import SECOND

LOOK_NS: Final = SECOND
"""The files are looked at for a new connection, at most this often."""

logger = logging.getLogger("penstock.tls")

_Stamp = tuple[int, int, int]


class Renewed:
    """The context for the next connection; connections that are open keep theirs.

    It is made again once its files have changed. Files that cannot be used, as while they are being
    replaced one after the other, leave the context as it was; the log says so.
    """

    def __init__(
        self, make: Callable[[], ssl.SSLContext], *files: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """``make`` reads the files; an empty name means no file. Raises ConfigError."""
        self._make = make
        self._files = [file for file in dict.fromkeys(files) if file]
        self._clock = clock
        self._stamps = self._look()  # before they are read: what changes meanwhile is read again
        self._refused: dict[str, _Stamp] = {}
        self._context = make()
        self._look_at = clock.monotonic_ns() + LOOK_NS

    def __call__(self) -> ssl.SSLContext:
        if self._clock.monotonic_ns() >= self._look_at:
            self._follow()
        return self._context

    def _follow(self) -> None:
        self._look_at = self._clock.monotonic_ns() + LOOK_NS
        stamps = self._look()
        if stamps == self._stamps:
            return
        try:
            self._context = self._make()
        except ConfigError as error:  # tried again, as the reason may be another than the files
            if stamps != self._refused:
                logger.error("TLS goes on with the certificates it has - %s", error)
            self._refused = stamps
        else:
            self._stamps = stamps
            logger.info("TLS: read %s again", ", ".join(self._files))

    def _look(self) -> dict[str, _Stamp]:
        """The state of the files that are there."""
        stamps = {}
        for file in self._files:
            with suppress(OSError):
                found = os.stat(file)
                stamps[file] = found.st_mtime_ns, found.st_size, found.st_ino
        return stamps
