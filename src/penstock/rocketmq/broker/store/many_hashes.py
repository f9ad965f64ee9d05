"""The 32-bit xxHash of many keys of one length at once: a few array operations for each 4 bytes of
a key, whatever the number of keys.

It gives what ``xxhash.xxh32_intdigest`` gives for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Words: TypeAlias = "npt.NDArray[np.uint32]"

_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_LANES: Final = (606290984, 2246822519, 0, 1640531535)
"""Start values of the four accumulators: two primes' sum, the second, 0, minus the first."""
_STRIPE: Final = 16


def hashes_of(keys: npt.NDArray[np.uint8]) -> Words:
    """The hash of each row of a table of bytes."""
    length = keys.shape[1]
    stripes, words = length // _STRIPE, length // 4
    columns: Words = np.ascontiguousarray(keys[:, : 4 * words]).view("<u4")
    if stripes:
        lanes: Words = np.broadcast_to(np.array(_LANES, np.uint32), (len(keys), 4))
        for number in range(stripes):
            lanes = _rotated(lanes + columns[:, 4 * number : 4 * number + 4] * _PRIME_2, 13)
            lanes *= _PRIME_1
        found = _rotated(lanes[:, 0], 1) + _rotated(lanes[:, 1], 7)
        found += _rotated(lanes[:, 2], 12) + _rotated(lanes[:, 3], 18)
    else:
        found = np.full(len(keys), _PRIME_5, np.uint32)
    found += np.uint32(length)
    for number in range(4 * stripes, words):
        found = _rotated(found + columns[:, number] * _PRIME_3, 17) * _PRIME_4
    for number in range(4 * words, length):
        found = _rotated(found + keys[:, number].astype(np.uint32) * _PRIME_5, 11) * _PRIME_1
    found ^= found >> np.uint32(15)
    found *= _PRIME_2
    found ^= found >> np.uint32(13)
    found *= _PRIME_3
    found ^= found >> np.uint32(16)
    return found


def _rotated(words: Words, bits: int) -> Words:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)
