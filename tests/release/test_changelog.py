"""The changelog is in parts by version, and a release makes a new one."""

from __future__ import annotations

from datetime import date

import pytest

from penstock import __version__
from tools.release.built import ROOT
from tools.release.changelog import faults, parts, released

TEXT = "# Changelog\n\nWords.\n\n## Unreleased\n\n- new\n\n## 0.1.0 (2026-01-02)\n\n- first\n"


def test_ours_is_in_order_and_its_newest_release_is_the_packages() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert faults(text) == []
    releases = [part.title.partition(" ")[0] for part in parts(text)[1:]]
    assert releases[:1] in ([], [__version__])


def test_a_release_takes_what_was_unreleased() -> None:
    text = released(TEXT, "0.2.0", date(2026, 3, 4))
    assert [part.title for part in parts(text)] == [
        "Unreleased", "0.2.0 (2026-03-04)", "0.1.0 (2026-01-02)",
    ]  # fmt: skip
    assert [part.text for part in parts(text)] == ["", "- new", "- first"]
    assert faults(text) == []
    assert text.startswith("# Changelog\n\nWords.\n")


@pytest.mark.parametrize(
    ("text", "version", "reason"),
    [
        (TEXT, "0.1.0", "0.1.0 is not newer than 0.1.0 (2026-01-02)"),
        (TEXT, "1.0", "1.0 is not a version such as 1.2.3"),
        (TEXT.replace("- new\n", ""), "0.2.0", "CHANGELOG.md has nothing below Unreleased"),
    ],
)
def test_there_is_no_release_of(text: str, version: str, reason: str) -> None:
    with pytest.raises(ValueError) as raised:
        released(text, version, date(2026, 3, 4))
    assert str(raised.value) == reason


def test_titles_in_the_wrong_place_are_found() -> None:
    text = "# C\n## 0.1.0 (2026-01-02)\n## Later\n## 0.1.1 (2026-01-03)\n## 0.2.0 (2026-01-04)\n"
    assert faults(text) == [
        "the first part is 0.1.0 (2026-01-02)",
        "no <version> (<date>): Later",
        "not the newest first",
    ]  # fmt: skip
