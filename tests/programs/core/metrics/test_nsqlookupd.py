from __future__ import annotations

from penstock.core.metrics import nsqlookupd as metrics
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.metrics_pages import Page, ask, missing, page_of, until


def test_the_page_has_the_whole_list_and_follows_what_is_registered() -> None:
    with run_nsqlookupd("--metrics") as lookupd:
        ask(lookupd.http, "/topic/create?topic=nobodys", b"")
        with run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
            ask(nsqd.http, "/topic/create?topic=t", b"")
            ask(nsqd.http, "/channel/create?topic=t&channel=c", b"")
            assert until(lambda: page_of(lookupd.http, "nsqlookupd")[metrics.CHANNELS.name].value())
            ask(lookupd.http, "/lookup?topic=t")
            ask(lookupd.http, "/lookup?topic=unknown")

            def hidden() -> Page:
                node = f"127.0.0.1:{nsqd.http_port}"
                ask(lookupd.http, f"/topic/tombstone?topic=t&node={node}", b"")
                page = page_of(lookupd.http, "nsqlookupd")
                return page if page[metrics.TOMBSTONES.name].value() else {}

            page = until(hidden)  # a slow answer makes nsqd connect again, and not be hidden
        gone = page[metrics.PRODUCERS_GONE.name].value()
        assert until(lambda: page_of(lookupd.http, "nsqlookupd")[
            metrics.PRODUCERS_GONE.name].value() > gone)  # fmt: skip
    assert not missing(page, metrics.LIST.metrics)
    figures = {name: found.value() for name, found in page.items() if name.startswith("nsqlookupd")
               and name not in (metrics.LOOKUPS.name, metrics.PRODUCERS_GONE.name)}  # fmt: skip
    assert figures == {
        metrics.PRODUCERS.name: 1,
        metrics.SILENT_PRODUCERS.name: 0,
        metrics.TOPICS.name: 2,
        metrics.CHANNELS.name: 1,
        metrics.EMPTY_TOPICS.name: 2,
        metrics.TOMBSTONES.name: 1,
        metrics.CONNECTIONS.name: 1,
    }
    assert page[metrics.LOOKUPS.name].value(found="true") == 1
    assert page[metrics.LOOKUPS.name].value(found="false") == 1


def test_unless_asked_for_there_are_no_metrics_but_it_is_ready() -> None:
    with run_nsqlookupd() as lookupd:
        assert ask(lookupd.http, "/metrics")[0] == 404
        assert ask(lookupd.http, "/ready") == (200, "OK")
