"""Modules of the pages by themselves: arithmetic and drawing, without a cluster to wait for."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

_LOAD = """
async (names) => {
  const folder = document.querySelector("link[rel=icon]").href.replace(/icon\\.svg$/, "js/");
  const modules = await Promise.all(names.map((name) => import(folder + name)));
  window.modules = Object.assign({}, ...modules);
}
"""


def load(page: Page, *names: str, path: str = "/lookup") -> None:
    """Opens a page and puts what these modules export into `modules`, for `page.evaluate`."""
    page.goto(path)
    page.evaluate(_LOAD, names)


def run(page: Page, code: str, argument: Any = None) -> Any:
    """What a function body returns that uses `modules` and `given`, the argument."""
    return page.evaluate(f"(given) => {{ {code} }}", argument)
