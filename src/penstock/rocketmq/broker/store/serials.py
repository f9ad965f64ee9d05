"""Physical offsets: one number that finds a message without the name of its topic.

Java has one log, where that is a position. Here each topic has a log and its own serial number,
and ``physical offset = serial << 40 | log offset``. A serial is durable before the first
message that needs it, and is never given twice.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED

OFFSET_BITS: Final = 40
SERIAL_MAX: Final = (1 << (63 - OFFSET_BITS)) - 1
_OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
FILE: Final = "rocketmq-serials.json"


def log_offset(physical: int) -> int:
    """The offset in its topic's log of a message at a physical offset."""
    return physical & _OFFSET_MASK


class Files(Protocol):
    """The files that the serials are kept in: ``storage.store.Store``."""

    def read_file(self, name: str) -> bytes | None: ...

    def replace_file(self, name: str, data: bytes) -> None: ...


class _Kept(msgspec.Struct):
    next: int
    serials: dict[str, int]


class Serials:
    """The serial of each topic."""

    def __init__(self, files: Files) -> None:
        """Raise StorageError when the file is damaged: offsets in clients' hands depend on it."""
        self._files = files
        self.reload()

    def reload(self) -> None:
        """Read the file, again where somebody else has replaced it. Raises StorageError."""
        data = self._files.read_file(FILE)
        try:
            kept = msgspec.json.decode(data, type=_Kept) if data is not None else _Kept(1, {})
        except MALFORMED as error:
            raise StorageError(
                f"{FILE} is damaged: {error}. Without it the message ids that clients hold lead "
                "nowhere. Put back a good copy, or delete it to give all topics new ids"
            ) from error
        self._next = max([kept.next, *(serial + 1 for serial in kept.serials.values())])
        self._serials = kept.serials
        self._topics = {serial: topic for topic, serial in kept.serials.items()}

    def of(self, topic: str) -> int:
        """The serial of a topic, given and written down when it has none. Raises StorageError."""
        serial = self._serials.get(topic)
        if serial is None:
            if self._next > SERIAL_MAX:
                raise StorageError(f"more than {SERIAL_MAX} topics have been made")
            serial = self._next
            self._save(_Kept(serial + 1, {**self._serials, topic: serial}))
            self._next = serial + 1
            self._serials[topic] = serial
            self._topics[serial] = topic
        return serial

    def has(self, topic: str) -> bool:
        """True of a topic that has a serial."""
        return topic in self._serials

    def forget(self, topic: str) -> None:
        """A topic is deleted; one of its name will have another serial. Raises StorageError."""
        serial = self._serials.pop(topic, None)
        if serial is not None:
            del self._topics[serial]
            self._save(_Kept(self._next, self._serials))

    def physical(self, topic: str, log_offset: int) -> int:
        """The physical offset of a message."""
        return self.of(topic) << OFFSET_BITS | log_offset

    def locate(self, physical: int) -> tuple[str, int] | None:
        """Topic and log offset; None when there is no such topic."""
        topic = self._topics.get(physical >> OFFSET_BITS)
        return None if topic is None else (topic, log_offset(physical))

    def _save(self, kept: _Kept) -> None:
        self._files.replace_file(FILE, msgspec.json.encode(kept))
