from __future__ import annotations

import pytest

from penstock.core.errors import StorageError
from penstock.rocketmq.broker.store.serials import OFFSET_BITS, SERIAL_MAX, Serials


class Files:
    """Files in memory; they can be broken."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.is_full = False

    def read_file(self, name: str) -> bytes | None:
        return self.content.get(name)

    def replace_file(self, name: str, data: bytes) -> None:
        if self.is_full:
            raise StorageError("full")
        self.content[name] = data


def test_an_offset_finds_its_topic_after_a_restart_too() -> None:
    files = Files()
    serials = Serials(files)
    one, two = serials.physical("one", 5), serials.physical("two", 5)
    assert one != two
    for again in (serials, Serials(files)):
        assert again.locate(one) == ("one", 5)
        assert again.locate(two) == ("two", 5)
        assert again.locate(77 << OFFSET_BITS) is None
        assert again.locate(-1) is None


def test_a_serial_is_never_given_twice() -> None:
    files = Files()
    serials = Serials(files)
    before = serials.of("one")
    serials.forget("one")
    serials = Serials(files)
    assert serials.of("one") > before
    assert serials.locate(before << OFFSET_BITS) is None


def test_a_serial_that_could_not_be_written_down_is_not_given() -> None:
    files = Files()
    serials = Serials(files)
    files.is_full = True
    with pytest.raises(StorageError):
        serials.of("one")
    files.is_full = False
    assert serials.locate(serials.physical("one", 3)) == ("one", 3)
    assert Serials(files).of("one") == serials.of("one")


def test_offsets_stay_positive() -> None:
    files = Files()
    serials = Serials(files)
    serials.of("one")
    serials._next = SERIAL_MAX
    largest = serials.physical("last", (1 << OFFSET_BITS) - 1)
    assert largest == (1 << 63) - 1
    with pytest.raises(StorageError, match="topics"):
        serials.of("too many")


@pytest.mark.parametrize("content", [b"", b"{"])
def test_a_damaged_file_says_what_to_do(content: bytes) -> None:
    files = Files()
    Serials(files).of("one")
    (name,) = files.content
    files.content[name] = content
    with pytest.raises(StorageError, match="Put back a good copy"):
        Serials(files)
