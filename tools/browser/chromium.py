"""Where Chromium is, and how it is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

# The shell first: it has no windows, and takes half of the processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
REMEDY = (
    "no Chromium: install one (on Debian: apt-get install chromium),"
    " or name it in PENSTOCK_CHROMIUM"
)
# Names that lead to 127.0.0.1: browsers trust 127.0.0.1 and localhost more than other names.
_FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP *.test 127.0.0.1")


def find_chromium() -> str | None:
    """The program: what PENSTOCK_CHROMIUM names, else the first of `NAMES` on PATH."""
    named = os.environ.get("PENSTOCK_CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def run_chromium() -> Iterator[Browser]:
    """A headless Chromium until the end of the block. Raises FileNotFoundError with the remedy.

    Playwright keeps an event loop running in this thread meanwhile: nothing in the block may use
    asyncio.
    """
    program = find_chromium()
    if program is None:
        raise FileNotFoundError(REMEDY)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()
