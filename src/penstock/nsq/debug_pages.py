"""The pages under /debug/pprof of a Go daemon, answered with what Python can tell.

Go's profiles have no counterpart; what matters is that a tool asking for them gets an answer.
"""

from __future__ import annotations

import asyncio
import gc
import html
import sys
import threading
import traceback

from penstock.net.http import Request, Response
from penstock.nsq.http_api import NsqRouter

_NO_SNIFFING = (("X-Content-Type-Options", "nosniff"),)
_PAGES = ("cmdline", "profile", "symbol", "heap", "goroutine", "block", "threadcreate")


def add_debug_pages(router: NsqRouter, index: str) -> None:
    """Adds the pages; `index` is /debug/pprof for nsqlookupd and /debug/pprof/ for nsqd."""
    router.add("GET", index, _index)
    router.add("GET", "/debug/pprof/cmdline", lambda request: _text("\0".join(sys.argv)))
    router.add("GET", "/debug/pprof/symbol", _symbol)
    router.add("POST", "/debug/pprof/symbol", _symbol)
    router.add("GET", "/debug/pprof/goroutine", lambda request: _text(_stacks()))
    router.add("GET", "/debug/pprof/heap", lambda request: _text(_heap()))
    for page in ("profile", "block", "threadcreate"):
        router.add("GET", f"/debug/pprof/{page}", _unavailable)


def _index(request: Request) -> Response:
    links = "".join(
        f'<li><a href="/debug/pprof/{html.escape(page)}">{html.escape(page)}</a></li>'
        for page in _PAGES
    )
    page = f"<html><head><title>/debug/pprof/</title></head><body><ul>{links}</ul></body></html>\n"
    return Response(200, page.encode(), "text/html; charset=utf-8", _NO_SNIFFING)


def _text(body: str) -> Response:
    return Response(200, body.encode(), "text/plain; charset=utf-8", _NO_SNIFFING)


def _symbol(request: Request) -> Response:
    return _text("num_symbols: 0\n")


def _unavailable(request: Request) -> Response:
    return _text("this profile exists only in programs written in Go\n")


def _heap() -> str:
    counts = "\n".join(f"generation {i}: {s}" for i, s in enumerate(gc.get_stats()))
    return f"objects: {len(gc.get_objects())}\n{counts}\n"


def _stacks() -> str:
    """Where every thread and every task stands."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame))
        parts.append(f"thread {names.get(ident, ident)}\n{stack}")
    for task in asyncio.all_tasks():
        stack = "".join(
            line for frame in task.get_stack() for line in traceback.format_stack(frame)[-1:]
        )
        parts.append(f"task {task.get_name()}\n{stack}")
    return "\n".join(parts)
