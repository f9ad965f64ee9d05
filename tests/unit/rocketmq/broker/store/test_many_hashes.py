"""Many hashes at once are those of the library, one by one."""

from __future__ import annotations

import os

import numpy as np
import pytest
from xxhash import xxh32_intdigest

from penstock.rocketmq.broker.store.many_hashes import hashes_of


@pytest.mark.parametrize("length", [*range(40), 56, 63, 64, 200])
def test_the_same_hashes(length: int) -> None:
    keys = [os.urandom(length) for _ in range(20)]
    table = np.frombuffer(b"".join(keys), np.uint8).reshape(20, length)
    assert hashes_of(table).tolist() == [xxh32_intdigest(key) for key in keys]


def test_columns_of_a_wider_table() -> None:
    table = np.arange(20 * 30, dtype=np.uint16).astype(np.uint8).reshape(20, 30)
    wanted = [xxh32_intdigest(row[5:26].tobytes()) for row in table]
    assert hashes_of(table[:, 5:26]).tolist() == wanted
