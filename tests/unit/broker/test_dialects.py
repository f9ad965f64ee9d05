"""Views of batches of another dialect."""

from __future__ import annotations

import pytest

from penstock.broker import dialects
from penstock.broker.dialects import Views, bodies, frames, nsq_raw, nsq_view
from penstock.nsq.protocol.translation import batch_of as nsq_batch_of
from penstock.storage.batch import Batch, Dialect


def batch(first: int, *given: bytes, dialect: int = Dialect.ROCKETMQ) -> Batch:
    return Batch.build(first, first, 5, len(given), len(given[0]), given, dialect=dialect)


@pytest.fixture
def upper(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A dialect whose bodies are its frames in capitals; what was loaded of it."""
    loaded: list[str] = []

    def load() -> dialects.Reader:
        loaded.append("reader")
        return lambda batch, first, next_: [each.upper() for each in frames(batch, first, next_)]

    def load_writer() -> dialects.Writer:
        loaded.append("writer")
        return nsq_batch_of

    monkeypatch.setattr(dialects, "_reader_loaders", {})
    monkeypatch.setattr(dialects, "_readers", {})
    monkeypatch.setattr(dialects, "_nsq_writer_loaders", [])
    dialects.register_reader(Dialect.ROCKETMQ, load)
    dialects.register_nsq_writer(load_writer)
    return loaded


def test_ones_own_batches_are_left_alone(upper: list[str]) -> None:
    own = batch(0, b"aa", b"bb", dialect=Dialect.NSQ)
    assert nsq_view(own) is own
    assert nsq_raw(own.raw) is own.raw
    assert upper == []


def test_a_view_is_made_once(upper: list[str]) -> None:
    given = batch(7, b"aa", b"bb")
    view = nsq_view(given)
    assert (view.dialect, view.first_offset, view.count) == (Dialect.NSQ, 7, 2)
    assert [frame[34:] for frame in frames(view, 7, 9)] == [b"AA", b"BB"]
    again = Batch.parse(bytes(given.raw))  # as it comes from the disk
    assert nsq_view(again) is view
    assert bytes(nsq_raw(given.raw)) == bytes(view.raw)
    assert upper == ["writer", "reader"]


def test_bodies_of_a_part(upper: list[str]) -> None:
    given = batch(7, b"aa", b"bb", b"cc")
    assert bodies(given, 8, 9) == [b"BB"]
    assert bodies(given, 7, 10) == [b"AA", b"BB", b"CC"]
    assert upper == ["reader"]


def test_a_dialect_that_nobody_knows(upper: list[str]) -> None:
    assert bodies(batch(7, b"aa", b"bb", dialect=9), 7, 9) == [b"aa", b"bb"]


def test_a_dialect_whose_messages_state_their_queue_offset_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Damage to the index of queues then costs no queue offset."""
    monkeypatch.setattr(dialects, "_stated_loaders", {})
    dialects.register_stated(Dialect.ROCKETMQ, lambda: lambda batch: batch.first_offset + 40)
    assert dialects.queue_offset(batch(7, b"aa")) == 47
    assert dialects.queue_offset(batch(7, b"aa", dialect=Dialect.NSQ)) is None


def test_views_have_a_bound() -> None:
    made: list[int] = []

    def translate(source: Batch) -> Batch:
        made.append(source.first_offset)
        return nsq_batch_of(source, frames(source, source.first_offset, source.next_offset))

    size = len(translate(batch(0, b"x" * 100)).raw)
    views = Views(translate, nbytes_max=2 * size)
    made.clear()
    for first in (1, 2, 1, 3, 1, 2):
        views.of(batch(first, b"x" * 100))
    assert made == [1, 2, 3, 2]  # 2 was used longest ago when 3 came
    assert (len(views), views.nbytes) == (2, 2 * size)
    views.of(batch(9, b"x" * 1000))
    assert len(views) == 1  # too large by itself, and still served
