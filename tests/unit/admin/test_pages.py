"""The files of the pages: how they are served, and colours that people can tell apart."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import penstock.admin
from penstock.admin.pages import WebFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "js").mkdir()
    (tmp_path / "js" / "a.js").write_text("a")
    (tmp_path / "b.css").write_text("b")
    (tmp_path / "notes.txt").write_text("not of the pages")
    return tmp_path


def test_files_are_kept_by_browsers_for_ever(folder: Path) -> None:
    files = WebFiles(folder, is_live=False)
    assert files.names == ["b.css", "js/a.js"]
    assert files.named(".js") == ["js/a.js"]
    answer = files.answer("js/a.js")
    assert (answer.body, answer.content_type) == (b"a", "text/javascript; charset=utf-8")
    assert dict(answer.headers)["Cache-Control"] == "public, max-age=31536000, immutable"
    assert dict(answer.headers)["X-Content-Type-Options"] == "nosniff"


def test_files_are_packed_once(folder: Path) -> None:
    (folder / "b.css").write_text("b" * 1000)
    files = WebFiles(folder, is_live=False)
    packed = files.answer("b.css", b"br, gzip")
    assert isinstance(packed.body, bytes)
    assert gzip.decompress(packed.body) == b"b" * 1000
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert files.answer("b.css", b"gzip, deflate") is packed
    assert files.answer("b.css", b"br") is files.answer("b.css")


def test_the_version_is_that_of_contents_and_names(folder: Path) -> None:
    versions = {WebFiles(folder, is_live=False).version, WebFiles(folder, is_live=False).version}
    (folder / "b.css").write_text("c")
    versions.add(WebFiles(folder, is_live=False).version)
    (folder / "b.css").rename(folder / "c.css")
    versions.add(WebFiles(folder, is_live=False).version)
    assert len(versions) == 3


def test_live_files_are_read_anew(folder: Path) -> None:
    files = WebFiles(folder, is_live=True)
    (folder / "b.css").write_text("new")
    assert files.answer("b.css").body == b"new"
    assert dict(files.answer("b.css").headers)["Cache-Control"] == "no-store"
    (folder / "b.css").unlink()
    assert files.answer("b.css").status == 404


def test_without_a_folder_there_are_no_files(tmp_path: Path) -> None:
    assert WebFiles(tmp_path / "none", is_live=False).names == []


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
