from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rocketmq.protocol.messages import properties
from penstock.spark.rocketmq.properties import Properties
from penstock.spark.rocketmq.stored import Spans


def parsed(*texts: bytes) -> Properties:
    """The properties of messages between whose properties other bytes lie."""
    between = b"\x01\x02x\x01y\x02"
    data = between + between.join(texts) + between
    starts, place = [], len(between)
    for text in texts:
        starts.append(place)
        place += len(text) + len(between)
    at = np.array(starts, np.int64)
    return Properties(data, Spans(at, at + np.array([len(text) for text in texts], np.int64)))


TEXTS = [
    "KEYS\x01a b\x02TAGS\x01T\x02",
    "KEYS\x01a b\x02TAGS\x01T",
    "",
    "TAGS\x01one\x02TAGS\x01two\x02=\x01=\x01=",
    "none\x01\x02\x01none\x02alone\x02\x02\x02KEYS\x01k\x02",
    "\u00fc\x01\u00e4\x02",
]


def test_all_of_them_as_java_reads_them() -> None:
    found = parsed(*(text.encode() for text in TEXTS)).maps().to_pylist()
    assert [sorted(each) for each in found] == [
        sorted(properties.parse(text).items()) for text in TEXTS
    ]


def test_one_of_them() -> None:
    found = parsed(*(text.encode() for text in TEXTS))
    assert found.of("TAGS").to_pylist() == ["T", "T", None, "two", None, None]
    assert found.of("KEYS").to_pylist() == ["a b", "a b", None, None, "k", None]
    assert found.of("nowhere").to_pylist() == [None] * 6


@pytest.mark.parametrize("count", [0, 3])
def test_messages_without_any(count: int) -> None:
    found = parsed(*([b""] * count))
    assert found.maps().to_pylist() == [[]] * count
    assert found.of("KEYS").to_pylist() == [None] * count


@given(st.lists(st.text(alphabet="ab\x01\x02", max_size=12), max_size=8))
def test_any_text_is_read_as_the_protocol_reads_it(texts: list[str]) -> None:
    found = parsed(*(text.encode() for text in texts))
    wanted = [properties.parse(text) for text in texts]
    assert [sorted(each) for each in found.maps().to_pylist()] == [
        sorted(each.items()) for each in wanted
    ]
    assert found.of("a").to_pylist() == [each.get("a") for each in wanted]
