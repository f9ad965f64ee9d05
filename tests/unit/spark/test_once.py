"""Warnings that are told once."""

from __future__ import annotations

import pytest

from penstock.spark.once import Once


def test_each_sentence_once(caplog: pytest.LogCaptureFixture) -> None:
    once = Once()
    for sentence in ("a", "b", "a"):
        once.warn(sentence)
    assert caplog.messages == ["a", "b"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_so_much_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    once = Once()
    for number in range(1500):
        once.warn(str(number))
    assert len(caplog.messages) == 1000
