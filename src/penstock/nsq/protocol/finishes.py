"""A read full of FIN lines, as one array of ids.

A consumer that is fast sends its FINs by the hundred, 21 bytes each: seen as a table of 21 columns
they need no parsing, only a look at the fixed columns and a decoding of the 16 hex columns.
"""

from __future__ import annotations

from binascii import unhexlify
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.nsq.protocol.frames import FIN_LENGTH

if TYPE_CHECKING:
    import numpy.typing as npt

Ids: TypeAlias = "npt.NDArray[np.uint64] | list[int]"

_HEX = b"0123456789abcdef"
_FEW = 12  # for fewer lines a loop, and a list, is quicker than numpy
_FIN = int.from_bytes(b"FIN ", "little")


def id_value(raw: bytes) -> int | None:
    """The number behind an id of 16 lower-case hex digits; None for any other id."""
    if len(raw) != 16 or raw.translate(None, _HEX):
        return None
    return int(raw, 16)


def read_finishes(data: bytes, start: int) -> Ids:
    """The ids of the regular FIN lines that follow each other from ``start`` on, perhaps none.

    Regular is ``FIN``, one space, 16 lower-case hex digits, LF. The run is as long as the result
    times ``FIN_LENGTH`` bytes.
    """
    lines = (len(data) - start) // FIN_LENGTH
    return _few(data, start, lines) if lines < _FEW else _many(data, start, lines)


def _few(data: bytes, start: int, lines: int) -> list[int]:
    ids: list[int] = []
    for at in range(start, start + lines * FIN_LENGTH, FIN_LENGTH):
        if data[at : at + 4] != b"FIN " or data[at + 20] != 10:
            break
        value = id_value(data[at + 4 : at + 20])
        if value is None:
            break
        ids.append(value)
    return ids


def _many(data: bytes, start: int, lines: int) -> npt.NDArray[np.uint64]:
    step = (FIN_LENGTH,)
    names = np.ndarray(lines, "<u4", data, start, step)
    ends = np.ndarray(lines, np.uint8, data, start + 20, step)
    regular = (names == _FIN) & (ends == 10)
    if not regular.all():
        lines = int(regular.argmin())
    digits = np.ndarray(lines, "V16", data, start + 4, step).tobytes()
    irregular = digits.translate(None, _HEX)
    if irregular:
        # What is left after deleting the digits starts with the first byte that is not a digit.
        digits = digits[: digits.index(irregular[0]) // 16 * 16]
    return np.frombuffer(unhexlify(digits), ">u8").astype(np.uint64)
