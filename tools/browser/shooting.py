"""Screenshots, for people to look at: build/screenshots/<name>.png."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, ViewportSize

Kind = Literal["light", "dark", "phone"]

FITS = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
"""Whether the page is no wider than the window."""

FOLDER = Path(__file__).parents[2] / "build" / "screenshots"
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}


def shoot(
    page: Page, name: str, kinds: Iterable[Kind] = ("light",), *, whole: bool = True
) -> list[Path]:
    """Writes `<name>.png`, `<name>-dark.png` and `<name>-phone.png`, as far as asked for.

    The whole page is on them, however long, or what the window shows of it. The page looks as
    before afterwards.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    before = page.viewport_size
    written = []
    for kind in kinds:
        page.emulate_media(color_scheme="dark" if kind == "dark" else "light")
        page.set_viewport_size(PHONE if kind == "phone" else before or DESKTOP)
        page.wait_for_function(FITS)  # tables make themselves as wide as the window
        path = FOLDER / f"{name}{'' if kind == 'light' else '-' + kind}.png"
        page.screenshot(path=path, full_page=whole, animations="disabled")
        written.append(path)
    page.emulate_media(color_scheme="null")
    page.set_viewport_size(before or DESKTOP)
    return written
