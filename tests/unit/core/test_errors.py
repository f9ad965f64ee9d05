from __future__ import annotations

from penstock.core.errors import (
    ConfigError,
    DiskFullError,
    LockedError,
    OffsetOutOfRangeError,
    PenstockError,
    ReadOnlyError,
    StorageError,
)


def test_all_errors_have_one_root() -> None:
    assert issubclass(ConfigError, PenstockError)
    for each in (DiskFullError, LockedError, OffsetOutOfRangeError, ReadOnlyError):
        assert issubclass(each, StorageError)


def test_offset_out_of_range_says_what_there_is() -> None:
    error = OffsetOutOfRangeError("t", 0, 5, 10, 20)
    assert str(error) == "offset 5 of topic 't' queue 0 is outside [10, 20]"
    assert (error.topic, error.queue, error.offset, error.start, error.end) == ("t", 0, 5, 10, 20)
