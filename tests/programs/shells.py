"""A blocking client with the surface of asyncio's, so that one test proves both libraries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any


class Awaited:
    """A blocking client; what is a coroutine of ``model``, asyncio's class, runs in its thread."""

    def __init__(self, client: Any, model: type) -> None:
        vars(self).update(_client=client, _model=model, _thread=ThreadPoolExecutor(1))

    def __getattr__(self, name: str) -> Any:
        found, model = getattr(self._client, name), getattr(self._model, name, None)
        if isasyncgenfunction(model):
            return lambda: Steps(found(), self._do)
        if iscoroutinefunction(model):
            return lambda *arguments, **options: self._do(lambda: found(*arguments, **options))
        return found

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._client, name, value)

    async def __aenter__(self) -> Awaited:
        await self._do(self._client.__enter__)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._do(lambda: self._client.__exit__(*exception))

    def __aiter__(self) -> AsyncIterator[Any]:
        return Steps(self._client, self._do)

    def _do(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)


class Steps:
    """What a blocking client is iterated for; one that is dropped ends at once, as Python's do."""

    def __init__(
        self, steps: Iterable[Any], do: Callable[[Callable[[], Any]], asyncio.Future[Any]]
    ) -> None:
        self._steps = iter(steps)
        self._do = do

    def __aiter__(self) -> Steps:
        return self

    async def __anext__(self) -> Any:
        found = await self._do(lambda: next(self._steps, None))
        if found is None:
            raise StopAsyncIteration
        return found
