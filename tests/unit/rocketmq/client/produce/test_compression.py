"""Bodies that are compressed on the way."""

from __future__ import annotations

import resource
import zlib

import pytest

from penstock.rocketmq.client.produce.compression import compress, decompress

BODY = b"tea and coffee " * 1000


@pytest.mark.parametrize(("kind", "bits"), [("ZLIB", 0x301), ("LZ4", 0x101), ("ZSTD", 0x201)])
def test_a_body_survives(kind: str, bits: int) -> None:
    packed, flag = compress(BODY, kind, 5)
    assert len(packed) < len(BODY) // 10
    assert flag == bits
    assert decompress(packed, flag) == BODY


def test_old_clients_do_not_say_how() -> None:
    assert decompress(zlib.compress(BODY), 0x1) == BODY
    assert decompress(BODY, 0x0) == BODY


@pytest.mark.parametrize("flag", [0x1, 0x101, 0x201, 0x301])
def test_what_is_damaged_stays_as_it_is(flag: int) -> None:
    assert decompress(b"no such thing", flag) == b"no such thing"


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_a_bomb_stays_packed(kind: str) -> None:
    packed, flag = compress(BODY, kind, 5)
    assert decompress(packed, flag, 1000) == packed


def test_a_bomb_takes_no_memory_first() -> None:
    frame, flag = compress(bytes(8 << 20), "ZSTD", 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert decompress(frame * 64, flag) == frame * 64
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB
