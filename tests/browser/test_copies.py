"""A node and its second copy on the pages, of real nodes: as they are, and when one is gone."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from penstock.testing.daemons import run_nsqd
from tests import copies
from tools.browser.site import Site
from tools.browser.watching import Watcher

from .axe import in_all_looks


def row_of(page: Page, node: str) -> Locator:
    head = page.get_by_role("rowheader").filter(has_text=node)
    return page.locator("#table-copies tbody tr").filter(has=head)


def test_a_pair_until_its_standby_is_gone(page: Page, site: Site, watcher: Watcher) -> None:
    watcher.expect(404)  # a standby is none of the registered nodes
    page.goto("/nodes")
    expect(page.locator("#table-nodes tbody tr").first).to_be_visible()
    expect(page.locator("#copies")).to_have_count(0)
    level = ("--replicas-acked=1", "--replicas-missing=go-on")
    with site.another_nsqd(*level) as primary:
        with run_nsqd(f"--follow={primary.http}") as standby:
            copies.until(primary, replicas_in_force=1)
            copies.publish(primary, "copied", "one")
            copies.until_copied(primary, standby, "copied")
            expect(row_of(page, primary.http)).to_contain_text("1 copy met")
            expect(row_of(page, primary.http)).to_contain_text("primary")
            expect(row_of(page, standby.http)).to_contain_text("standby")
            expect(row_of(page, standby.http)).to_contain_text("follows")
            expect(row_of(page, standby.http)).to_contain_text("may be promoted")
            assert in_all_looks(page) == []
            page.goto(f"/nodes/{primary.http}")
            expect(page.locator("#copy")).to_contain_text(f"Followed by{standby.http}")
            page.locator("#copy").get_by_role("link", name=standby.http).click()
            expect(page.locator("h1")).to_contain_text(standby.http)
            expect(page.locator("#copy")).to_contain_text(f"Follows{primary.http}")
            expect(page.locator("#copy")).to_contain_text("0 messages")
        page.goto("/")
        alerts = page.locator("#attention li")
        expect(alerts.filter(has_text=primary.http)).to_contain_text("says OK without copies")
        page.goto("/nodes")
        expect(row_of(page, primary.http)).to_contain_text(re.compile("not met.*goes on without"))
        expect(row_of(page, standby.http)).to_contain_text("copy gone")
