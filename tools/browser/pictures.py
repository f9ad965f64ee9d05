"""The pictures of the README and of the documentation: python -m tools.browser.pictures.

nsqadmin's first page, and `penstock top` in a terminal of 80 columns, over a cluster with traffic.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from itertools import groupby

from playwright.sync_api import Browser, ViewportSize
from pyte.screens import Char

from tools.harness.terminals import screen
from tools.pages.documentation import DOCS

from .chromium import run_chromium
from .screenshots import SETTLE_MS, has_history
from .site import Site, running_site, until

FOLDER = DOCS / "images"
WINDOW: ViewportSize = {"width": 1280, "height": 720}
COLUMNS, LINES = 80, 18
COLOURS = {
    "default": "#d6dae0", "black": "#1c2128", "red": "#f47067", "green": "#6bc46d",
    "brown": "#daaa3f", "blue": "#6cb6ff", "magenta": "#dcbdfb", "cyan": "#76e3ea",
    "white": "#f0f3f6", "brightblack": "#768390",
}  # fmt: skip
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #1c2128 }}
pre {{ display: inline-block; margin: 0; padding: 14px 18px; font: 15px/1.35 monospace;
      color: #d6dae0; background: #1c2128 }}
</style><pre>{}</pre>"""


def nsqadmin(browser: Browser, site: Site) -> None:
    """The overview, as a window shows it."""
    context = browser.new_context(base_url=site.url, viewport=WINDOW, reduced_motion="reduce")
    page = context.new_page()
    page.goto("/")
    page.wait_for_selector("h1")
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=FOLDER / "nsqadmin.png", animations="disabled")
    context.close()


def top(browser: Browser, site: Site) -> None:
    """The live view, with rates."""
    address = f"--lookupd-http-address={site.lookupd.http}"
    with screen("top", address, columns=COLUMNS, lines=LINES) as shown:
        shown.until(lambda text: "▲" in text or "▼" in text)
        terminal(browser, shown.cells(), "top")
        shown.type("q")
        shown.ended()


def terminal(browser: Browser, lines: Iterable[Iterable[Char]], name: str) -> None:
    """The cells of a terminal as a picture."""
    context = browser.new_context(device_scale_factor=1.5)
    page = context.new_page()
    page.set_content(PAGE.format("\n".join(map(_line, lines))))
    page.locator("pre").screenshot(path=FOLDER / f"{name}.png")
    context.close()


def _line(cells: Iterable[Char]) -> str:
    """A span for each run of cells that look alike: between two spans there is a seam."""
    runs = groupby(cells, _style)
    return "".join(
        f'<span style="{style}">{html.escape("".join(cell.data for cell in run))}</span>'
        for style, run in runs
    )


def _style(cell: Char) -> str:
    front, back = (COLOURS.get(each, f"#{each}") for each in (cell.fg, cell.bg))
    back = "transparent" if cell.bg == "default" else back
    if cell.reverse:
        front, back = COLOURS["black"], front
    style = f"color:{front};background:{back}"
    style += ";font-weight:bold" if cell.bold else ""
    return style + (";text-decoration:underline" if cell.underscore else "")


def main() -> None:
    """Both pictures; some 30 s, for the charts to have lines."""
    with run_chromium() as browser, running_site() as site:
        until(lambda: has_history(site), "points in the charts")
        nsqadmin(browser, site)
        top(browser, site)


if __name__ == "__main__":
    main()
