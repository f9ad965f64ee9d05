"""A version that is known passes, a later one is refused with what helps."""

from __future__ import annotations

import pytest

from penstock.core.errors import LaterFormatError
from penstock.storage.files.versions import check_version


def test_versions_up_to_the_newest_pass() -> None:
    for version in (1, 2):
        check_version("/d/queue.json", version, 2)


def test_a_later_one_is_refused() -> None:
    with pytest.raises(LaterFormatError, match=r"^/d/queue.json has format 3, of a later Penstock"):
        check_version("/d/queue.json", 3, 2)
