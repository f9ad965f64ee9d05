"""Asking several daemons at the same time: what the good ones say, and what the others failed of.

found = await ask_all("nsqd", addresses, ask)      # NoAnswerError when not one answers
warnings.add(found.errors)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from penstock.cluster.upstream_errors import NoAnswerError, UpstreamError

AskedT = TypeVar("AskedT")
T = TypeVar("T")


class Answers(NamedTuple, Generic[AskedT, T]):
    """Answers and who gave them, in the order in which they were named, and the others' errors."""

    answers: list[tuple[AskedT, T]]
    errors: list[str]


class Warnings:
    """The errors beside what went well; a line for each step that had errors."""

    def __init__(self) -> None:
        self._steps: list[list[str]] = []

    def add(self, errors: Iterable[str]) -> None:
        """The errors of one step."""
        if step := list(errors):
            self._steps.append(step)

    @property
    def errors(self) -> list[str]:
        """All of them, as one step."""
        return [error for step in self._steps for error in step]

    @property
    def message(self) -> str:
        """The warning in the API's answers; empty when all went well."""
        return "WARNING: " + "; ".join(map("\n".join, self._steps)) if self._steps else ""


class Strict(Warnings):
    """Warnings of those whose sums are wrong without every answer: an error is raised."""

    def add(self, errors: Iterable[str]) -> None:
        """Raise NoAnswerError with the errors of the step, if there are any."""
        if step := list(errors):
            raise NoAnswerError("\n".join(step))


async def ask_all(
    kind: str, asked: Iterable[AskedT], ask: Callable[[AskedT], Awaitable[T]]
) -> Answers[AskedT, T]:
    """Ask them all. NoAnswerError, which calls them by their ``kind``, when none answers."""
    everybody = list(asked)
    found = await try_all(everybody, ask)
    # Also when nobody was to be asked: 0 of 0 is a failure for Go's nsqadmin (NSQ spec 5.1).
    if len(found.errors) == len(everybody):
        raise NoAnswerError(f"failed to query any {kind}: " + "\n".join(found.errors))
    return found


async def try_all(
    asked: Iterable[AskedT], ask: Callable[[AskedT], Awaitable[T]]
) -> Answers[AskedT, T]:
    """Ask them all; it may be that none answers."""
    everybody = list(asked)
    outcomes = await asyncio.gather(*(_outcome(ask, each) for each in everybody))
    answers, errors = [], []
    for each, outcome in zip(everybody, outcomes, strict=True):
        if isinstance(outcome, UpstreamError):
            errors.append(str(outcome))
        else:
            answers.append((each, outcome))
    return Answers(answers, errors)


async def _outcome(ask: Callable[[AskedT], Awaitable[T]], asked: AskedT) -> T | UpstreamError:
    try:
        return await ask(asked)
    except UpstreamError as error:
        return error
