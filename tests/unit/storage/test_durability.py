from __future__ import annotations

from penstock.storage.durability import Durability


def test_the_levels_have_the_names_that_users_give() -> None:
    assert [Durability(name).name for name in ("memory", "write", "fsync")] == [
        "MEMORY", "WRITE", "FSYNC"]  # fmt: skip
