"""Compiled code is there where it can be made, or its tests would be left out in silence."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from penstock import lane


def test_it_was_built_where_a_compiler_is() -> None:
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which("cc") and headers.exists():
        assert lane.STATE in ("on", "off"), lane.meaning()


def test_a_module_that_is_older_than_its_source_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "penstock" / "lane"
    folder.mkdir(parents=True)
    module, source = folder / "compiled.so", folder / "joint.pxi"
    for path in (source, module, folder / "compiled.pyx"):
        path.touch()
        os.utime(path, (1000, 1000))
    os.utime(source, (1001, 1001))
    assert not lane._is_stale(str(module)), "an installed package, whose times say nothing"
    (tmp_path / "hatch_build.py").touch()
    assert lane._is_stale(str(module))
    os.utime(module, (1001, 1001))
    assert not lane._is_stale(str(module))
