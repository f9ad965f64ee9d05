from __future__ import annotations

import msgspec
import pytest

from penstock.core.malformed import MALFORMED


class Known(msgspec.Struct):
    name: str = ""


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"name":1}', b'{"name":"\xff"}', b'{"unknown":' + b"[" * 100_000],
    ids=["nothing", "cut short", "another type", "another type within", "no UTF-8", "nested"],
)
def test_whatever_is_wrong_is_one_of_them(data: bytes) -> None:
    with pytest.raises(MALFORMED):
        msgspec.json.decode(data, type=Known)
