"""The programs of docs/testing.md, run by pytest as they stand there, and the names it lists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from penstock import testing
from tools.pages.documentation import DOCS, blocks

PAGE = DOCS / "testing.md"


def test_its_programs_pass(tmp_path: Path) -> None:
    settings = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    (tmp_path / "pytest.ini").write_text(settings)
    programs = blocks(PAGE, "python")
    for text in programs:
        found = re.match(r"# (test_\w+\.py)\n", text)
        assert found, text
        (tmp_path / found[1]).write_text(text)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert f"{len(programs)} passed" in done.stdout, done.stdout + done.stderr


def test_its_table_has_all_names_and_no_others() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| name |")[2]
    first = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    named = {name for cell in first for name in re.findall(r"`(\w+)", cell)}
    assert named == set(testing.__all__)
    attributes = re.search(r"^\| `Daemon` \|(.*)$", table, re.MULTILINE)
    assert attributes
    with testing.run_nsqd() as daemon:
        for name in re.findall(r"`(\w+)(?:\(\))?`", attributes[1]):
            assert hasattr(daemon, name), name
