"""The pages under /debug/pprof, at the paths and in the formats of a Go daemon.

``go tool pprof http://127.0.0.1:4151/debug/pprof/profile?seconds=5`` works, and so do viewers of
its format. What they show is Python's: functions, threads and tasks. ``?debug=1`` gives text
instead. The pages that Go's nsqd lacks (allocs, mutex, trace) are lacking here too.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.redaction import without_secrets
from penstock.net import process
from penstock.net.http.server.service import DeferredResponse, Request, Response
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.net.profiles import call_stacks
from penstock.net.profiles.cpu import CpuProfile
from penstock.net.profiles.pprof import Profile, ValueType
from penstock.net.tasks import spawn

logger = logging.getLogger(__name__)

SECONDS_MAX: Final = 300
_PROFILE_SECONDS: Final = 30  # as in Go, when none are given

_NO_SNIFFING = ("X-Content-Type-Options", "nosniff")
_LINKS: Final = (
    ("profile?seconds=5", "where the processor time goes, sampled for some seconds"),
    ("profile?seconds=5&debug=1", "the same as folded stacks, for flame graphs"),
    ("heap?debug=1", "memory in figures"),
    ("heap?seconds=5", "what is allocated in some seconds and stays, by place; slows all down"),
    ("goroutine?debug=1", "where every thread and every task stands"),
    ("threadcreate?debug=1", "the threads"),
    ("block?debug=1", "waiting for locks: not recorded by Python"),
    ("cmdline", "the command line"),
)
_WATCHING = (
    "Python does not watch allocations unless it is told to, as that slows it down. Ask for"
    " /debug/pprof/heap?seconds=N to watch for N seconds, or start with PYTHONTRACEMALLOC=16 in"
    " the environment; /debug/pprof/heap?debug=1 shows what is known without.\n"
)
_NO_BLOCKING = "Python records no waiting for locks; see /debug/pprof/profile and goroutine.\n"


class DebugPages:
    """The handlers of one daemon. One profile is taken at a time: they slow the daemon down."""

    def __init__(self) -> None:
        self._taking = ""

    def profile(self, request: Request) -> Response | DeferredResponse:
        """Processor time: for pprof, or with ``debug=1`` or ``format=collapsed`` as folded
        stacks.
        """
        query = Query.parse(request.query)
        folded = _debug(query) > 0 or query.get("format") == "collapsed"

        async def take(gone: asyncio.Event) -> Response:
            sampler = CpuProfile(SYSTEM_CLOCK)
            sampler.start()
            try:
                await _wait(gone, seconds)
            finally:
                sampler.stop()
            if folded:
                return _text(await asyncio.to_thread(sampler.folded))
            return _binary("profile", await asyncio.to_thread(sampler.pprof))

        seconds = _seconds(query) or _PROFILE_SECONDS
        return self._take("profile", take)

    def heap(self, request: Request) -> Response | DeferredResponse:
        """Memory by place of allocation: what is watched already, or watched for ``seconds``."""
        from penstock.net.profiles import heap  # tracemalloc takes a while to import

        query = Query.parse(request.query)
        seconds = _seconds(query)
        as_text = _debug(query) > 0
        if not seconds and not heap.is_watching():
            return _text(_memory() + "\n" + _WATCHING) if as_text else _refusal(400, _WATCHING)

        async def take(gone: asyncio.Event) -> Response:
            profile = heap.HeapProfile(SYSTEM_CLOCK)
            begun = not heap.is_watching()
            if begun:
                heap.watch()
            try:
                await _wait(gone, seconds)
                await asyncio.to_thread(profile.take)
            finally:
                if begun:
                    heap.unwatch()
            if as_text:
                return _text(_memory() + "\n" + await asyncio.to_thread(profile.text))
            return _binary("heap", await asyncio.to_thread(profile.pprof))

        return self._take("heap", take)

    def _take(
        self, what: str, take: Callable[[asyncio.Event], Awaitable[Response]]
    ) -> Response | DeferredResponse:
        """Answer later with what ``take`` makes; it ends early when the client is gone."""
        if self._taking:
            return _refusal(409, f"a {self._taking} is being taken; try again when it is over\n")
        self._taking = what
        later, gone = DeferredResponse(), asyncio.Event()
        later.abandoned = gone.set

        async def run() -> None:
            try:
                response = await take(gone)
            except Exception:
                logger.exception("taking a %s failed", what)
                response = _refusal(500, f"taking a {what} failed; the log says why\n")
            finally:
                self._taking = ""
            later.complete(response)

        spawn(run(), f"take a {what}")
        return later


def add_debug_pages(router: ApiRouter, index: str) -> None:
    """Add the pages; ``index`` is /debug/pprof for nsqlookupd and /debug/pprof/ for nsqd."""
    pages = DebugPages()
    for path, handler in (
        ("/debug/pprof/profile", pages.profile),
        ("/debug/pprof/heap", pages.heap),
    ):
        router.add("GET", path, _checked(handler), is_safe=False)  # they slow the daemon down
    for path, handler in (
        (index, _index),
        ("/debug/pprof/cmdline", _cmdline),
        ("/debug/pprof/symbol", _symbol),
        ("/debug/pprof/goroutine", _goroutine),
        ("/debug/pprof/threadcreate", _threadcreate),
        ("/debug/pprof/block", _block),
    ):
        router.add("GET", path, _checked(handler))
    router.add("POST", "/debug/pprof/symbol", _symbol)


def free_memory(request: Request) -> Response:
    """Collect what is garbage, and give the memory that is free now back to the system."""
    gc.collect()
    process.release_free_heap()
    return Response()


Handler = Callable[[Request], Response | DeferredResponse]


def _checked(handler: Handler) -> Handler:
    """Wrap a handler so that wrong parameters are answered in words."""

    def answer(request: Request) -> Response | DeferredResponse:
        try:
            return handler(request)
        except ApiError as error:
            return _refusal(error.status, f"{error.code}\n")

    return answer


# --- pages that are ready at once ----------------------------------------------------------------


def _index(request: Request) -> Response:
    from html import escape  # slow to import

    rows = "".join(
        f'<tr><td><a href="/debug/pprof/{escape(link)}">{escape(link)}</a></td>'
        f"<td>{escape(about)}</td></tr>\n"
        for link, about in _LINKS
    )
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        "<title>/debug/pprof/</title>\n<style>body { font: 16px/1.5 sans-serif; margin: 2em }"
        " td { padding: 0 2em 0 0 }</style></head>\n<body>\n<h1>/debug/pprof/</h1>\n"
        f"<table>\n{rows}</table>\n<p>Without debug=1 the profiles are for <code>go tool pprof"
        "</code>, speedscope and other viewers of the pprof format.</p>\n</body>\n</html>\n"
    )
    return Response(200, page.encode(), "text/html; charset=utf-8", (_NO_SNIFFING,))


def _cmdline(request: Request) -> Response:
    # Joined by NUL as Go does it, but without secrets.
    return _text("\0".join(map(without_secrets, sys.argv)))


def _symbol(request: Request) -> Response:
    # Our profiles have names in them: pprof has nothing to ask for.
    return _text("num_symbols: 0\n")


def _goroutine(request: Request) -> Response:
    return _standing(request, "goroutine", [*call_stacks.threads(), *call_stacks.tasks()])


def _threadcreate(request: Request) -> Response:
    return _standing(request, "threadcreate", call_stacks.threads())


def _standing(request: Request, what: str, stacks: list[call_stacks.Stack]) -> Response:
    if _debug(Query.parse(request.query)):
        return _text(f"{what} profile: total {len(stacks)}\n\n{call_stacks.as_text(stacks)}")
    kind = ValueType(what, "count")
    profile = Profile(
        (kind,), program=sys.argv[0], time_ns=SYSTEM_CLOCK.wall_ns(), period=(kind, 1)
    )
    for stack in stacks:
        profile.add(stack.frames, (1,), {stack.kind: stack.name})
    return _binary(what, profile.encode())


def _block(request: Request) -> Response:
    """Empty, as Go's is while its rate is 0."""
    if _debug(Query.parse(request.query)):
        return _text(_NO_BLOCKING)
    types = (ValueType("contentions", "count"), ValueType("delay", "nanoseconds"))
    profile = Profile(
        types, program=sys.argv[0], time_ns=SYSTEM_CLOCK.wall_ns(), comment=_NO_BLOCKING.strip()
    )
    return _binary("block", profile.encode())


def _memory() -> str:
    resident, virtual = process.memory()
    lines = [
        f"resident memory: {resident} bytes (mapped: {virtual})",
        f"kept free by the C library: {process.free_heap()} bytes",
        f"blocks of Python's allocator: {sys.getallocatedblocks()}",
        f"objects the garbage collector set aside at the start: {gc.get_freeze_count()}",
    ]
    lines += [f"generation {number}: {each}" for number, each in enumerate(gc.get_stats())]
    return "\n".join(lines) + "\n"


# --- parameters and answers ----------------------------------------------------------------------


def _seconds(query: Query) -> int:
    """``seconds``, 1 to 300; 0 when it is absent. Raises ApiError."""
    given = query.get("seconds")
    if given is None:
        return 0
    if not re.fullmatch("[0-9]{1,9}", given) or not 1 <= int(given) <= SECONDS_MAX:
        raise ApiError(400, f"seconds must be a whole number from 1 to {SECONDS_MAX}")
    return int(given)


def _debug(query: Query) -> int:
    given = query.get("debug") or "0"
    return int(given) if re.fullmatch("[0-9]{1,9}", given) else 0


async def _wait(gone: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await gone.wait()
    except TimeoutError:
        pass


def _text(body: str) -> Response:
    encoded = body.encode("utf-8", "backslashreplace")
    return Response(200, encoded, "text/plain; charset=utf-8", (_NO_SNIFFING,))


def _binary(name: str, body: bytes) -> Response:
    headers = (("Content-Disposition", f'attachment; filename="{name}"'), _NO_SNIFFING)
    return Response(200, body, "application/octet-stream", headers)


def _refusal(status: int, text: str) -> Response:
    """A refusal, with the header that makes ``go tool pprof`` show the text to its user."""
    headers = (_NO_SNIFFING, ("X-Go-Pprof", "1"))
    return Response(status, text.encode(), "text/plain; charset=utf-8", headers)
