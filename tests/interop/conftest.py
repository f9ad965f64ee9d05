"""Daemons are forks here, as in the conformance tests: a start takes a tenth of its time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forked import daemons_forked


@pytest.fixture(scope="module", autouse=True)
def forked() -> Iterator[None]:
    with daemons_forked():
        yield
