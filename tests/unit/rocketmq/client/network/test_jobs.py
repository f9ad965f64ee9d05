"""Coroutines without an event loop."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.network.jobs import Job, Promise, all_of, kept, settled


async def plus_one(promise: Promise[int]) -> int:
    return await promise + 1


def test_a_job_goes_on_when_its_promise_is_kept() -> None:
    promise = Promise[int]()
    job = Job(plus_one(promise))
    assert not job.is_done
    promise.keep(1)
    assert job.result() == 2


def test_a_job_that_waits_for_nothing_is_done_at_once() -> None:
    assert Job(plus_one(kept(1))).result() == 2


def test_an_error_is_raised_where_it_is_awaited() -> None:
    promise = Promise[int]()
    job = Job(plus_one(promise))
    promise.fail(ValueError("no"))
    assert isinstance(job.error, ValueError)
    with pytest.raises(ValueError, match="no"):
        job.result()


def test_what_is_known_stays_so() -> None:
    promise = kept(1)
    promise.keep(2)
    promise.fail(ValueError())
    assert promise.result() == 1


def test_a_cancelled_job_ends_where_it_waits() -> None:
    ended = []

    async def work(promise: Promise[int]) -> None:
        try:
            await promise
        finally:
            ended.append(True)

    promise = Promise[int]()
    job = Job(work(promise))
    job.cancel(KeyError("gone"))
    assert ended == [True]
    assert isinstance(job.error, KeyError)
    promise.keep(1)  # nobody waits any more
    job.cancel(ValueError())
    assert isinstance(job.error, KeyError)


def test_waiting_for_all_does_not_mind_errors() -> None:
    first, second = Promise[int](), Promise[int]()
    job = Job(all_of([first, second]))
    second.fail(ValueError())
    assert not job.is_done
    first.keep(1)
    assert job.is_done
    assert settled(second).is_done


def test_a_callback_can_be_forgotten() -> None:
    told: list[Promise[int]] = []
    promise = Promise[int]()
    promise.then(told.append)
    promise.forget(told.append)
    promise.forget(told.append)
    promise.keep(1)
    assert told == []
