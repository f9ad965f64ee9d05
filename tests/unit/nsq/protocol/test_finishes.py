"""A read full of FINs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.protocol.encode import finish
from penstock.nsq.protocol.finishes import id_value, read_finishes

numbers = st.integers(0, 2**64 - 1)


@given(st.lists(numbers, max_size=40), st.binary(max_size=30), st.integers(0, 5))
def test_reads_the_run_and_no_further(ids: list[int], rest: bytes, start: int) -> None:
    data = b"#" * start + b"".join(finish(b"%016x" % number) for number in ids) + rest
    found = read_finishes(data, start)
    assert isinstance(found, list) or found.dtype.name == "uint64"
    assert list(map(int, found))[: len(ids)] == ids


@pytest.mark.parametrize(
    "line",
    [
        b"FIN 0123456789abcdeg\n",
        b"FIN 0123456789abcdeF\n",
        b"FIN 0123456789abcde\r\n",
        b"fin 0123456789abcdef\n",
        b"FIN 0123456789abcdef\r",
        b"FIN 0123456789abcde\n\n",
        b"FIN 01234567\n9abcdef\n",
    ],
)
@pytest.mark.parametrize("before", [0, 3, 30])
@pytest.mark.parametrize("after", [0, 30])
def test_an_irregular_line_ends_the_run(line: bytes, before: int, after: int) -> None:
    regular = finish(b"00000000000000ff")
    assert len(read_finishes(regular * before + line + regular * after, 0)) == before


@given(st.binary(min_size=14, max_size=18) | st.text("0123456789abcdefABx_ +-").map(str.encode))
def test_id_value(raw: bytes) -> None:
    value = id_value(raw)
    if value is None:
        assert len(raw) != 16 or set(raw) - set(b"0123456789abcdef")
    else:
        assert b"%016x" % value == raw
