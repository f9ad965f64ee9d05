from __future__ import annotations

import numpy as np

from penstock.spark.rocketmq.arrays import binaries, texts
from penstock.spark.rocketmq.stored import Spans


def spans(*pieces: tuple[int, int]) -> Spans:
    starts, ends = zip(*pieces, strict=True) if pieces else ((), ())
    return Spans(np.array(starts, np.int64), np.array(ends, np.int64))


def test_pieces_of_a_buffer() -> None:
    assert binaries(b"abcdef", spans((0, 2), (2, 2), (3, 6))).to_pylist() == [b"ab", b"", b"def"]
    assert binaries(b"abcdef", spans()).to_pylist() == []


def test_what_is_no_utf_8_is_replaced() -> None:
    data = "\u00fc\u00e4".encode() + b"\xff!"
    assert texts(data, spans((0, 2), (2, 4))).to_pylist() == ["\u00fc", "\u00e4"]
    assert texts(data, spans((0, 2), (4, 6))).to_pylist() == ["\u00fc", "\ufffd!"]
