from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_nsq import splitting
from penstock.nsq.tools.to_nsq.splitting import Splitter


def split(blocks: list[bytes], delimiter: bytes = b"\n") -> list[bytes]:
    splitter = Splitter(delimiter)
    return [record for block in blocks for record in splitter.feed(block)] + splitter.end()


def test_empty_records_are_none_and_the_last_is_whole() -> None:
    assert split([b"a\nbb\n\nccc\nlast"]) == [b"a", b"bb", b"ccc", b"last"]
    assert split([b"x"]) == [b"x"]
    assert split([b""]) == []
    assert split([b"a,b\nc,,d,"], b",") == [b"a", b"b\nc", b"d"]


@given(st.lists(st.binary(max_size=8)))
def test_however_the_stream_is_cut(blocks: list[bytes]) -> None:
    whole = [record for record in b"".join(blocks).split(b"\n") if record]
    assert split(blocks) == whole


def test_a_record_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "RECORD_BYTES_MAX", 10)
    splitter = Splitter(b"\n")
    splitter.feed(b"x" * 10)
    with pytest.raises(ToolError, match="longer than 10 bytes"):
        splitter.feed(b"x")
