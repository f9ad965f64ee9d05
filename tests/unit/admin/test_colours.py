"""The colours of the pages can be read by most people: WCAG 2.1, contrast of level AA."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock.admin

TOKENS = Path(penstock.admin.__file__).parent / "web" / "style" / "tokens.css"
LIGHT, DARK = 0, 1
TEXT, LINES = 4.5, 3.0
GROUNDS = ("ground", "surface", "raised", "sunken", "hover")
ON_THEM = ("ink", "ink-soft", "ink-faint", "accent", "good", "warn", "bad")
PAIRS = [
    *((word, ground, TEXT) for word in ON_THEM for ground in GROUNDS),
    *((status, f"{status}-ground", TEXT) for status in ("accent", "good", "warn", "bad")),
    ("on-accent", "accent", TEXT),
    ("on-bad", "bad", TEXT),
    ("ink", "accent-ground", TEXT),
    ("axis", "surface", TEXT),
    *((f"json-{part}", "sunken", TEXT) for part in ("key", "string", "number", "word")),
    *((f"tone-{number}", "surface", LINES) for number in range(1, 7)),
]


def colours(theme: int) -> dict[str, str]:
    """Names and #rrggbb of a theme."""
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", TOKENS.read_text())
    return {name: both[theme] for name, *both in found}


def brightness(colour: str) -> float:
    """Relative luminance."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """From 1 to 21."""
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_lines_stand_out_from_their_grounds(theme: int) -> None:
    known = colours(theme)
    weak = [
        f"{word} on {ground}: {found:.2f}"
        for word, ground, wanted in PAIRS
        if (found := contrast(known[word], known[ground])) < wanted
    ]
    assert weak == []


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
