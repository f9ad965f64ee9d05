from __future__ import annotations

from pathlib import Path

import pytest

from tools.monitoring.generated import ROOT, files


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_the_file_is_up_to_date(path: Path) -> None:
    """`make pages` writes it again."""
    assert path.read_text(encoding="utf-8") == files()[path], path.relative_to(ROOT)
