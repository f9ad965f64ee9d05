"""The tables of figures, all of one run: ``bench/figures.json``, which `make figures` writes.

`python -m tools.pages.figures` writes them into the README, the manual and bench/README.md;
`tests/conformance/test_figures.py` checks that it did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .documentation import DOCS, ROOT

FILE: Final = ROOT / "bench" / "figures.json"
README: Final = ROOT / "README.md"
OPERATE: Final = DOCS / "operate.md"
BENCH: Final = ROOT / "bench" / "README.md"
BEGIN: Final = "<!-- figures: written by `make figures` -->\n"
END: Final = "<!-- end of figures -->\n"
PARTS: Final = {
    "mpub 200, equal": "MPUB of 200, 2 connections",
    "mpub 200, mixed": "the same, bodies of 20 to 400 bytes",
    "consume, equal": "consuming, RDY 2500, a FIN each",
    "1 topic, 8 channels": "1 topic to 8 channels, each delivery counted",
    "pub, 50 connections": "PUB, each waiting for its OK, 50 connections",
    "pub, 2 connections": "the same, 2 connections",
    "http /mpub 100, text": "POST /mpub of 100, 4 connections",
    "http /pub, 16 connections": "POST /pub, 16 connections",
}
"""What is shown of a run, by the benchmark's name for it."""
OURS, DEFAULT, MEMORY = "penstock", "go", "go, memory"

Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


def run() -> dict[str, Any]:
    """The run that all figures are of."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def beside_go(found: Figures, *, every: bool = False) -> str:
    """Rates beside those of Go's nsqd, with its default flags and with everything in memory; of
    what `PARTS` names, or of every part of the run.
    """
    head = [
        "| | Penstock | Go's nsqd, default | | Go's nsqd, in memory | |",
        "|---|---|---|---|---|---|",
    ]
    rows = []
    shown = PARTS | {part: PARTS.get(part, part) for part in found if every}
    for part, words in shown.items():
        if part in found:
            ours = _rate(found, part, OURS)
            cells = [words, _thousands(ours)]
            for other in (DEFAULT, MEMORY):
                rate = _rate(found, part, other)
                cells += [_thousands(rate), _ratio(ours / rate)]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*head, *rows, ""])


def of_a_core(found: Figures) -> str:
    """Penstock's rates, and the processor time of the server for a message."""
    head = ["| what | messages a second | CPU a message |", "|---|---|---|"]
    rows = [
        f"| {words} | {_thousands(_rate(found, part, OURS))} "
        f"| {found[part][OURS]['server_cpu_us_per_msg']:.3g} us |"
        for part, words in PARTS.items()
        if part in found
    ]
    return "\n".join([*head, *rows, ""])


def conditions(known: Mapping[str, Any]) -> str:
    """The sentence under a table."""
    return (
        f"One run on {known['machine']}: Python {known['python']}, bodies of {known['size']} "
        f"bytes, medians of three rounds by turns, {known['date']} ({known['commit']}).\n"
    )


def files() -> dict[Path, str]:
    """Every page with the tables that it should have."""
    known = run()
    found = known["figures"]
    tables = {
        README: beside_go(found),
        OPERATE: of_a_core(found),
        BENCH: beside_go(found, every=True),
    }
    return {
        page: _with(page.read_text(encoding="utf-8"), f"{text}\n{conditions(known)}")
        for page, text in tables.items()
    }


def _with(page: str, text: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "a page has no place for its figures"
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _rate(found: Figures, part: str, server: str) -> float:
    return found[part][server]["msg_per_s"]


def _ratio(ratio: float) -> str:
    return f"{ratio:.1f} x" if ratio >= 2 else f"{ratio:.2f} x"


def _thousands(rate: float) -> str:
    return f"{rate / 1000:,.0f} k/s" if rate >= 100_000 else f"{rate / 1000:.1f} k/s"


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
