"""Coroutines without an event loop: the core waits for promises, a shell keeps them.

The core is written as ``async def``, and what it awaits in the end is a ``Promise``: an answer, a
time that comes, a handler that returns. A ``Job`` runs such a coroutine and goes on with it as soon
as the promise is kept, in the call that keeps it. There is neither asyncio nor a thread in this, so
an asyncio program, a blocking one and a test with a clock that it moves all run the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """Something that will be known later: a value, or an error."""

    __slots__ = ("_callbacks", "_error", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], object]] = []

    def keep(self, value: T) -> None:
        """Keep the promise with a value; nothing happens when it was known before."""
        self._settle(value, None)

    def fail(self, error: BaseException) -> None:
        """Break the promise with an error; nothing happens when it was known before."""
        self._settle(None, error)

    def result(self) -> T:
        """The value; raises the error."""
        assert self.is_done, "not known yet"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set with is_done

    @property
    def error(self) -> BaseException | None:
        """The reason of a failure; None while it is open, and when it is known."""
        return self._error

    def then(self, callback: Callable[[Promise[T]], object]) -> None:
        """Call this with the promise when it is done; now if it is."""
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def forget(self, callback: Callable[[Promise[T]], object]) -> None:
        """Do not call it any more."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        if self.is_done:
            return
        self.is_done, self._value, self._error = True, value, error
        # Taken out first: a callback may add others, or settle what waits for this.
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self.is_done:
            yield self
        return self.result()


class Job(Promise[T]):
    """A coroutine of the core at work; its result is the promise's."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, None, T]) -> None:
        super().__init__()
        self._coroutine = coroutine
        self._awaited: Promise[Any] | None = None
        self._go_on(None)

    def cancel(self, error: BaseException) -> None:
        """End it where it waits; that is its error. Its ``finally`` clauses may not wait."""
        if self.is_done:
            return
        if self._awaited is not None:
            self._awaited.forget(self._go_on)
        # Not throw(): a coroutine of the core may not wait while it ends.
        self._coroutine.close()
        self.fail(error)

    def _go_on(self, _: Promise[Any] | None) -> None:
        try:
            self._awaited = self._coroutine.send(None)
        except StopIteration as end:
            self.keep(end.value)
        except Exception as error:
            # Not BaseException: what a signal's handler raises goes to whoever runs the client.
            self.fail(error)
        else:
            assert isinstance(self._awaited, Promise), "the core awaits promises only"
            self._awaited.then(self._go_on)


def kept(value: T) -> Promise[T]:
    """A promise that is known already."""
    promise = Promise[T]()
    promise.keep(value)
    return promise


async def all_of(promises: Sequence[Promise[Any]]) -> None:
    """Wait until each is done, whatever becomes of it."""
    for promise in promises:
        await settled(promise)


def settled(promise: Promise[Any]) -> Promise[None]:
    """A promise that is kept as soon as this one is done, whatever becomes of it."""
    after = Promise[None]()
    promise.then(lambda _: after.keep(None))
    return after
