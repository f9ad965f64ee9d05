"""The errors of Penstock: one root, so that a caller can tell ours from a bug."""

from __future__ import annotations


class PenstockError(Exception):
    """Anything Penstock refuses or cannot do; the text is meant for the user."""


class ConfigError(PenstockError):
    """An option or a configuration file holds something that cannot be used."""


class UsageError(ConfigError):
    """A flag that makes no sense, alone or beside others: a command ends with exit code 2."""


class StorageError(PenstockError):
    """The log cannot be read or written."""


class DiskFullError(StorageError):
    """The disk has no room; publishing may work again later, consuming works now."""


class DiskHangsError(StorageError):
    """The disk does not answer; nothing was written, and the same works once it answers."""


class ExitingError(StorageError):
    """The topic is being deleted, or the broker is stopping; the text is NSQ's."""

    def __init__(self) -> None:
        super().__init__("exiting")


class NotCopiedError(StorageError):
    """Fewer followers are there than an OK is to promise; the publish is not stored."""


class LateCopyError(StorageError):
    """A publish is stored, but fewer followers have it in time than its OK is to promise. It can be
    read once they have.
    """


class TooManyFilesError(StorageError):
    """No file handle is left just now; nothing was tried, and the same may work later."""


class LaterFormatError(StorageError):
    """A file is of a later version of Penstock; nothing of it was read or changed."""


class ReadOnlyError(StorageError):
    """Writing stopped for good after a failed sync; only a restart helps."""


class LockedError(StorageError):
    """Another process uses this data directory."""


class OffsetOutOfRangeError(StorageError):
    """A reader asked for an offset that the log no longer or not yet holds.

    ``start`` is the first offset held, ``end`` the one the next message will get.
    """

    def __init__(self, topic: str, queue: int, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"offset {offset} of topic {topic!r} queue {queue} is outside [{start}, {end}]"
        )
        self.topic = topic
        self.queue = queue
        self.offset = offset
        self.start = start
        self.end = end
