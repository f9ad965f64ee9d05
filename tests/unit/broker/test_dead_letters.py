"""Names of dead-letter topics, and the notes in them."""

from __future__ import annotations

import msgspec
import pytest

from penstock.broker.dead_letters import Origins, dead_letter_topic, decode_origins, encode_origins
from penstock.core.names import is_valid_name


@pytest.mark.parametrize(
    ("pattern", "topic", "name"),
    [
        ("%s.dead", "orders", "orders.dead"),
        ("graveyard", "orders", "graveyard"),
        ("dead-%s", "orders", "dead-orders"),
        ("%s.dead", "o" * 64, "o" * 59 + ".dead"),
        ("%s.dead", "orders#ephemeral", "orders.dead#ephemeral"),
        ("%s.dead", "o" * 54 + "#ephemeral", "o" * 49 + ".dead#ephemeral"),
        ("%s.dead#ephemeral", "orders", "orders.dead#ephemeral"),
    ],
)
def test_dead_letter_topics(pattern: str, topic: str, name: str) -> None:
    assert is_valid_name(name)
    assert dead_letter_topic(pattern, topic) == name


@pytest.mark.parametrize("pattern", ["", "%s %s", "%s%s", "x" * 65, "%s" + "x" * 65, "%d"])
def test_patterns_that_make_no_name(pattern: str) -> None:
    assert not is_valid_name(dead_letter_topic(pattern, "t"))


def test_a_note_comes_back() -> None:
    origins = Origins("t", "c", [1 << 62, 5], [3, 65535])
    assert decode_origins(encode_origins(origins)) == origins
    assert origins.reason == "max_attempts"
    of_an_earlier_version = msgspec.msgpack.encode(["t", "c", [1 << 62, 5], [3, 65535]])
    assert decode_origins(of_an_earlier_version) == origins
    assert decode_origins(b"") is None
    assert decode_origins(b"of another version") is None
    nested = b"\x95" + encode_origins(origins)[1:] + b"\x91" * 5000
    assert decode_origins(nested) is None
