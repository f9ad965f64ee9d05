"""nsqadmin's pages in Chromium over a made-up cluster: 1,000 topics x 10 channels x 10 nodes.

    python bench/admin_pages.py [--topics 1000] [--channels 10] [--nodes 10]
                                [--interval 5] [--refreshes 6] [--only topics ...]

For each page, with an empty cache and with a full one: milliseconds from the navigation until its
first rows are there, and from a click on one of them until the next page is; until then, processor
time of the page and of nsqadmin, which other programs on the machine change less. Then, while a
page is watched for so many refreshes, every figure being another each time: processor time of
nsqadmin a refresh, bytes of an event; in the browser processor time a refresh, long tasks (over 50
ms), JavaScript heap and elements; last, nsqadmin's memory. Needs Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from harness import resident_mb, server_cpu_s
from made_up_cluster import add_shape, made_up_cluster, shape_of, topic_name
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from penstock.testing import Daemon, run_nsqadmin

SECONDS_MAX = 30
_MS = 1000
_TOPIC = topic_name(0)
_NOTE = """
const seen = (window.measured = { longTasks: [], clicked: 0 });
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) seen.longTasks.push(entry.duration);
}).observe({ type: "longtask", buffered: true });
addEventListener("click", () => (seen.clicked = performance.now()), { capture: true });
"""
_SINCE = "(at) => document.querySelector(at) && performance.now() - (window.measured?.clicked ?? 0)"


class Look(NamedTuple):
    """A page: its path, what is there when it can be used, what to click, what is there then."""

    path: str
    usable: str
    click: str
    then: str


def looks(node: str) -> dict[str, Look]:
    """The pages that are measured; `node` is the address of one."""
    row, topic, port = "main tbody tr a", f"/topics/{_TOPIC}", node.rpartition(":")[2]
    to_topic, to_channel = f"main a[href='{topic}']", f"main a[href^='{topic}/']"
    to_node = f"main a[href$='{port}']"
    return {
        "overview": Look("/", row, row, "main a[href*='/channel-']"),
        "topics": Look("/topics", to_topic, to_topic, to_channel),
        "topic": Look(topic, to_channel, to_channel, to_node),
        "nodes": Look("/nodes", to_node, to_node, to_topic),
        "node": Look(f"/nodes/{node}", to_topic, to_topic, to_channel),
    }


class Opened(NamedTuple):
    """Milliseconds until a page could be used, and from a click until the next one could; processor
    time of the page and of nsqadmin until then.
    """

    usable_ms: float
    click_ms: float
    page_cpu_ms: float
    server_cpu_ms: float


class Watched(NamedTuple):
    """What refreshes cost while a page is watched."""

    server_cpu_ms: float
    page_cpu_ms: float
    event_bytes: list[int]
    long_tasks_ms: list[float]
    heap_mb: float
    elements: int
    rss_mb: float


def open_page(page: Page, protocol: CDPSession, admin: Daemon, look: Look) -> Opened:
    """Navigates, waits for the first rows, clicks on one."""
    server_before = server_cpu_s(admin.pid)
    page.goto(look.path, wait_until="commit")
    usable = page.wait_for_function(_SINCE, arg=look.usable).json_value()
    page_cpu = readings(protocol)["TaskDuration"]  # since the navigation
    server_cpu = server_cpu_s(admin.pid) - server_before
    page.locator(look.click).first.click()
    page.wait_for_function("(path) => location.pathname !== path", arg=look.path)
    clicked = page.wait_for_function(_SINCE, arg=look.then).json_value()
    return Opened(usable, clicked, page_cpu * _MS, server_cpu * _MS)


def watch(page: Page, protocol: CDPSession, admin: Daemon, look: Look,
          args: argparse.Namespace) -> Watched:  # fmt: skip
    """Watches a page for as many refreshes as the flags say."""
    events: list[int] = []
    protocol.on("Network.eventSourceMessageReceived",
                lambda event: events.append(len(event["data"].encode())))  # fmt: skip
    protocol.send("Network.enable")
    page.goto(look.path)
    page.wait_for_selector(look.usable)
    wait_for(page, events, 2, args.interval + SECONDS_MAX)
    page.evaluate("measured.longTasks.length = 0")
    count = len(events)
    page_before, server_before = readings(protocol)["TaskDuration"], server_cpu_s(admin.pid)
    wait_for(page, events, count + args.refreshes, args.interval + SECONDS_MAX)
    server_cpu = server_cpu_s(admin.pid) - server_before
    page_cpu = readings(protocol)["TaskDuration"] - page_before
    tasks = page.evaluate("measured.longTasks")
    protocol.send("HeapProfiler.collectGarbage")
    after = readings(protocol)
    return Watched(
        server_cpu / args.refreshes * _MS,
        page_cpu / args.refreshes * _MS,
        events[count : count + args.refreshes],
        tasks,
        after["JSHeapUsedSize"] / 1e6,
        int(after["Nodes"]),
        resident_mb(admin.pid),
    )


def readings(protocol: CDPSession) -> dict[str, float]:
    """Chromium's figures of a page: seconds, bytes, numbers."""
    metrics = protocol.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in metrics}


def wait_for(page: Page, events: list[int], count: int, most: float) -> None:
    """Until so many events have come. Raises TimeoutError when one takes longer than `most`."""
    while len(events) < count:
        had, end = len(events), time.monotonic() + most
        while len(events) == had:
            if time.monotonic() > end:
                raise TimeoutError(f"{had} events, and no other within {most:g} s")
            page.wait_for_timeout(20)


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Chromium: what PENSTOCK_CHROMIUM names, else Debian's."""
    program = shutil.which(os.environ.get("PENSTOCK_CHROMIUM", "chromium"))
    if program is None:
        sys.exit("no Chromium: install one, or name it in PENSTOCK_CHROMIUM")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        yield playwright.chromium.launch(executable_path=program, args=flags)


@contextmanager
def fresh_page(chromium: Browser, admin: Daemon) -> Iterator[tuple[Page, CDPSession]]:
    """A page with an empty cache, and the way to its readings."""
    context = chromium.new_context(base_url=f"http://{admin.http}")
    context.set_default_timeout(SECONDS_MAX * _MS)
    context.add_init_script(_NOTE)
    page = context.new_page()
    protocol = context.new_cdp_session(page)
    protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
    yield page, protocol
    context.close()


def print_openings(chromium: Browser, admin: Daemon, chosen: dict[str, Look]) -> None:
    """How long pages take to open."""
    print("opening (ms)        usable    click   page CPU   nsqadmin CPU")
    for name, look in chosen.items():
        with fresh_page(chromium, admin) as (page, protocol):
            for cache in ("empty", "full"):
                it = open_page(page, protocol, admin, look)
                print(f"{name:10} {cache:6} {it.usable_ms:8.0f} {it.click_ms:8.0f}"
                      f" {it.page_cpu_ms:10.0f} {it.server_cpu_ms:14.0f}")  # fmt: skip


def print_refreshes(
    chromium: Browser, admin: Daemon, chosen: dict[str, Look], args: argparse.Namespace
) -> None:
    """What refreshes cost."""
    print(f"\n{args.refreshes} refreshes, one every {args.interval} s: means")
    print("            nsqadmin CPU (ms)   event (kB)   page CPU (ms)   long tasks (ms)"
          "   heap (MB)   nodes of the DOM   nsqadmin RSS (MB)")  # fmt: skip
    for name, look in chosen.items():
        with fresh_page(chromium, admin) as (page, protocol):
            it = watch(page, protocol, admin, look, args)
        size = sum(it.event_bytes) / len(it.event_bytes) / 1000
        tasks = f"{len(it.long_tasks_ms)}, at most {max(it.long_tasks_ms, default=0):.0f}"
        print(f"{name:10} {it.server_cpu_ms:18.0f} {size:12.1f} {it.page_cpu_ms:15.0f}"
              f"   {tasks:15} {it.heap_mb:11.1f} {it.elements:18} {it.rss_mb:19.0f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape(parser)
    parser.add_argument("--interval", type=int, default=5, help="seconds between refreshes")
    parser.add_argument("--refreshes", type=int, default=6, help="to watch each page for")
    names = list(looks(""))
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PAGE")
    args = parser.parse_args()
    interval = f"--history-interval={args.interval}s"
    with (
        made_up_cluster(shape_of(args)) as cluster,
        run_nsqadmin(f"--lookupd-http-address={cluster.lookupd}", interval) as admin,
    ):
        print(shape_of(args))
        found = looks(cluster.nodes[0])
        chosen = {name: found[name] for name in args.only}
        with running_chromium() as chromium:
            print_openings(chromium, admin, chosen)
            print_refreshes(chromium, admin, chosen, args)


if __name__ == "__main__":
    main()
