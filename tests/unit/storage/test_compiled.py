"""Batches and commands where msgspec and xxhash are not installed."""

from __future__ import annotations

import msgspec
import xxhash

from penstock.storage import compiled


def test_a_broker_has_the_compiled_ones() -> None:
    assert compiled.Struct is msgspec.Struct
    assert compiled.xxh3_64_intdigest is xxhash.xxh3_64_intdigest
    assert compiled.CHECKSUMS
