"""Every metric of NSQ's ports is on the page of an nsqd; and when an nsqd is ready."""

from __future__ import annotations

import json

from penstock.core.metrics import nsqd as metrics
from penstock.core.metrics import process
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.metrics_pages import ask, missing, page_of, until
from tests.programs.nsq.nsqd.auth_server import run_auth_server
from tools.harness.ports import unused_address

PIPELINE = {"id": "1", "name": "p", "state": "running"}


def test_the_page_has_the_whole_list() -> None:
    with run_auth_server() as auth, run_nsqd(
        "--metrics", f"--auth-http-address={auth.address}"
    ) as nsqd:  # fmt: skip
        assert ask(nsqd.http, "/pipelines", json.dumps(PIPELINE).encode())[0] == 200
        page = page_of(nsqd.http, "nsqd")
    assert not missing(page, metrics.LIST.metrics)


def test_ready_means_registered_once_and_stays_when_the_directory_goes() -> None:
    address = unused_address()
    with run_nsqd("--metrics", f"--lookupd-tcp-address={address}") as nsqd:
        waiting = (503, f"NOK - not registered at any nsqlookupd yet: {address}")
        assert until(lambda: ask(nsqd.http, "/ready") == waiting)
        assert ask(nsqd.http, "/ping") == (200, "OK")
        assert page_of(nsqd.http, "nsqd")[process.READY.name].value() == 0
        with run_nsqlookupd(f"--tcp-address={address}"):
            assert until(lambda: ask(nsqd.http, "/ready") == (200, "OK"))
            assert until(lambda: page_of(nsqd.http, "nsqd")[
                metrics.LOOKUPDS_CONNECTED.name].value() == 1)  # fmt: skip
        assert until(lambda: _connected(nsqd.http) == 0)
        assert ask(nsqd.http, "/ready") == (200, "OK")


def _connected(address: str) -> float:
    ask(address, "/topic/create?topic=noticed", b"")  # a command that finds the connection closed
    ask(address, "/topic/delete?topic=noticed", b"")
    page = page_of(address, "nsqd")
    assert page[metrics.LOOKUPDS.name].value() == 1
    return page[metrics.LOOKUPDS_CONNECTED.name].value()
