from __future__ import annotations

from penstock.core.metrics import process
from penstock.testing.daemons import run_nsqlookupd
from tests.metrics_pages import missing, page_of


def test_the_page_has_the_whole_list() -> None:
    with run_nsqlookupd("--metrics") as lookupd:
        page = page_of(lookupd.http, "nsqlookupd")
    assert not missing(page, process.LIST.metrics)
    assert page[process.READY.name].value() == 1
