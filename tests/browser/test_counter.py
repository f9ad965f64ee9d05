"""The counter: it counts up, steadily, and never down."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tools.browser.site import Site, until

from .conftest import OpenPage
from .modules import load, run


def shown(page: Page) -> int:
    return int((page.locator(".rolling").text_content() or "").replace(",", ""))


def test_it_counts_what_the_channels_get(page: Page, site: Site) -> None:
    def counted() -> int:
        return sum(each["message_count"] for each in site.api("/api/counter")["stats"].values())

    least = counted()
    page.goto("/counter")
    expect(page.locator(".rolling")).to_be_visible()
    assert least <= shown(page) <= counted()
    first = shown(page)
    until(lambda: shown(page) > first, "the counter counting")
    until(lambda: "/s" in page.locator(".counter-rate").inner_text(), "a rate")


def test_it_moves_between_two_answers(open_page: OpenPage) -> None:
    page = open_page(reduced_motion="no-preference")
    load(page, "core/dom.js", "widgets/counting.js")
    seen = page.evaluate("""async () => {
      const { render, rolling } = modules;
      render(document.body, rolling(1000, 1));
      render(document.body, rolling(2000, 0.3));
      const seen = [];
      const element = document.querySelector(".rolling");
      while (element.textContent !== "2,000") {
        seen.push(Number(element.textContent.replace(",", "")));
        await new Promise(requestAnimationFrame);
      }
      return seen;
    }""")
    assert seen == sorted(seen)
    assert len({each for each in seen if 1000 < each < 2000}) > 2


def test_who_wants_less_motion_sees_the_number_at_once(page: Page) -> None:
    load(page, "core/dom.js", "widgets/counting.js")
    text = run(page, """
      modules.render(document.body, modules.rolling(1000, 1));
      modules.render(document.body, modules.rolling(2000, 60));
      return document.querySelector(".rolling").textContent;
    """)  # fmt: skip
    assert text == "2,000"


def test_it_never_goes_back(page: Page) -> None:
    load(page, "features/running_total.js", "core/dom.js", "widgets/counting.js")
    grown = run(page, """
      const sum = modules.tally();
      const steps = [
        [["a", 100], ["b", 50]],
        [["a", 110], ["b", 50]],
        [["a", 110]],               // b's node is away
        [["a", 3], ["b", 60]],      // a's node was started anew
        [["a", 5], ["b", 60], ["c", 7]],
        [],
      ];
      return steps.map((step) => [sum.take(step), sum.total]);
    """)  # fmt: skip
    assert grown == [[150, 150], [10, 160], [0, 160], [13, 173], [9, 182], [0, 182]]
    text = run(page, """
      modules.render(document.body, modules.rolling(2000, 1));
      modules.render(document.body, modules.rolling(1000, 1));
      return document.querySelector(".rolling").textContent;
    """)  # fmt: skip
    assert text == "2,000"
