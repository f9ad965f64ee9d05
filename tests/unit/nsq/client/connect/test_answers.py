"""Answers taken one by one, what follows left where it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.client.connect.answers import ANSWER_MAX, AnswerReader, NotNsq
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.frames import Error, Frame, Response
from tests.unit.nsq.protocol.cuts import cut


@given(
    texts=st.lists(st.binary(max_size=20), max_size=5),
    sizes=st.lists(st.integers(0, 12), max_size=20),
)
def test_any_cut(texts: list[bytes], sizes: list[int]) -> None:
    reader = AnswerReader()
    found: list[Frame] = []
    for part in cut(b"".join(map(frames.response, texts)), sizes):
        reader.receive_data(part)
        while (frame := reader.next()) is not None:
            found.append(frame)
    assert found == [Response(text) for text in texts]
    assert reader.rest() == b""


@given(rest=st.binary(max_size=40))
def test_what_follows_is_not_looked_at(rest: bytes) -> None:
    reader = AnswerReader()
    reader.receive_data(frames.error("E_X") + rest)
    assert reader.next() == Error("E_X")
    assert reader.rest() == rest
    assert reader.rest() == b""
    assert reader.next() is None


def test_the_wrong_port() -> None:
    reader = AnswerReader()
    reader.receive_data(b"HTT")
    assert reader.next() is None
    reader.receive_data(b"P/1.1 400 Bad Request\r\n")
    with pytest.raises(NotNsq, match="unexpected HTTP response"):
        reader.next()


@pytest.mark.parametrize("size", [0, 3, ANSWER_MAX + 1, 2**32 - 1])
def test_sizes_that_no_answer_has(size: int) -> None:
    reader = AnswerReader()
    reader.receive_data(size.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"an answer of {size} bytes"):
        reader.next()
