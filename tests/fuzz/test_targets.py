"""Every decoder against damaged input, briefly and always the same; `make fuzz` looks further."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from tests.fuzz.mutate import mutations
from tools.fuzz.catalogue import TARGETS

INPUTS = 1500
SECONDS_MAX = 0.15
"""Of the processor, so that a busy machine tries no less."""


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    """Thousands of damaged files would be reported, each in its own line."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_keeps_its_promises_on_damaged_input(name: str) -> None:
    target = TARGETS[name]
    end = time.process_time() + SECONDS_MAX
    for number, data in enumerate(mutations(target.seeds, target.words, INPUTS, seed=1)):
        try:
            target.run(data)
        except BaseException as error:
            error.add_note(f"input {number}: {data!r}")
            raise
        if number > len(target.seeds) and time.process_time() > end:
            break
