from __future__ import annotations

from penstock.core.metrics import nsqadmin as metrics
from penstock.core.metrics import process
from penstock.testing.daemons import run_nsqadmin, run_nsqd
from tests.metrics_pages import ask, missing, page_of, until
from tools.harness.ports import unused_address


def test_the_page_has_the_whole_list_and_counts_nodes_that_do_not_answer() -> None:
    silent, endpoint = unused_address(), unused_address()
    with run_nsqd() as nsqd, run_nsqadmin(
        "--metrics", f"--nsqd-http-address={nsqd.http}", f"--nsqd-http-address={silent}",
        f"--notification-http-endpoint=http://{endpoint}", "--http-client-connect-timeout=1m",
        "--http-client-request-timeout=1m",
    ) as admin:  # fmt: skip
        ask(nsqd.http, "/topic/create?topic=t", b"")
        assert until(lambda: ask(admin.http, "/ready") == (200, "OK"))
        ask(admin.http, "/api/topics/t", b'{"action":"pause"}')
        assert until(lambda: page_of(admin.http, "nsqadmin")[
            metrics.NOTIFICATION_FAILURES.name].value() == 1)  # fmt: skip
        page = page_of(admin.http, "nsqadmin")
    assert not missing(page, metrics.LIST.metrics)
    assert page[metrics.NODES.name].value() == 1
    assert page[metrics.FAILURES.name].value() == 1
    assert page[metrics.NOTIFICATIONS.name].value() == 1
    assert page[process.READY.name].value() == 1


def test_without_a_history_it_is_ready_at_once() -> None:
    flags = ("--metrics", f"--nsqd-http-address={unused_address()}", "--history-interval=0")
    with run_nsqadmin(*flags) as admin:
        assert ask(admin.http, "/ready") == (200, "OK")
        assert metrics.LOOKS.name not in page_of(admin.http, "nsqadmin")
