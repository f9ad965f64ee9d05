"""Modules that are imported when they are used."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.late_import import import_late, load_late

PACKAGE = "penstock_late_sample"
CONTENT = """
import time
import penstock_late_sample
assert not hasattr(penstock_late_sample, "first"), "of itself it has what it has by now"
first = 1
from penstock_late_sample.part import number
time.sleep(0.05)
second = number + 1
def __getattr__(name):
    if name == "made_up":
        return 3
    raise AttributeError(name)
"""


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that can be imported, and was not."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text(CONTENT)
    (folder / "part.py").write_text("number = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield PACKAGE
    for name in (PACKAGE, f"{PACKAGE}.part"):
        sys.modules.pop(name, None)


def loaded() -> bool:
    return f"{PACKAGE}.part" in sys.modules


def test_importing_it_again_imports_nothing_and_using_it_does(sample: str) -> None:
    import_late(sample)
    module = importlib.import_module(sample)
    assert not loaded()
    assert (module.second, module.first, module.made_up) == (2, 1, 3)
    assert module is sys.modules[sample]
    with pytest.raises(AttributeError):
        _ = module.nothing


def test_a_submodule_brings_the_whole_package(sample: str) -> None:
    import_late(sample)
    importlib.import_module(f"{sample}.part")
    assert "second" in vars(sys.modules[sample])


def test_what_nobody_used_is_loaded_when_there_is_time(sample: str) -> None:
    import_late(sample)
    load_late()
    assert "second" in vars(sys.modules[sample])
    load_late()


def test_a_module_that_is_there_stays(sample: str) -> None:
    module = importlib.import_module(sample)
    import_late(sample, "penstock_has_no_such_module")
    assert sys.modules[sample] is module
    assert "penstock_has_no_such_module" not in sys.modules


def test_threads_wait_for_the_one_that_imports(sample: str) -> None:
    import_late(sample)
    module = importlib.import_module(sample)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(module.second)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2] * 4


def test_one_that_fails_says_so_to_whoever_uses_it(sample: str, tmp_path: Path) -> None:
    (tmp_path / sample / "part.py").write_text("1 / 0\n")
    import_late(sample)
    module = importlib.import_module(sample)
    with pytest.raises(ZeroDivisionError):
        _ = module.second
