"""The zip for ``--py-files``: the modules that Spark's driver and executors import, and no more.

Beside it an executor needs pyspark, pyarrow and numpy. Where xxhash is installed too, checksums are
verified there a second time; msgspec is not missed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import penstock
from penstock.core.errors import PenstockError

FOUND_BY_NAME: Final = ("pyspark_nsq", "pyspark_rocketmq")
"""The packages that Spark itself looks for, one a data source."""
LEFT_OUT: Final = frozenset(
    {
        "penstock/spark/channel/stager.py",
        "penstock/core/logs.py",
    }
)
"""Modules that run where Penstock is installed: on NSQ's client at the driver, or in a daemon."""
_SOURCE = Path(penstock.__file__).parents[1]


def write_zip(to: Path) -> Path:
    """Write the zip; the same modules always make the same file.

    ``to`` is the file, or a folder that gets one named for the version. Raises PenstockError when
    it cannot be written.
    """
    path = to / f"penstock-{penstock.__version__}.zip" if to.is_dir() else to
    try:
        with ZipFile(path, "w", compresslevel=9) as archive:
            for module in modules():
                # A fixed date, which is what ZipInfo has by default: the file names its content.
                entry = ZipInfo(module.relative_to(_SOURCE).as_posix())
                entry.compress_type = ZIP_DEFLATED
                archive.writestr(entry, module.read_bytes())
    except OSError as error:
        raise PenstockError(f"{path} cannot be written: {error.strerror}") from error
    return path


def modules() -> list[Path]:
    """The files of the Spark side and of all of ours that they import, sorted."""
    by_name = (_SOURCE / name / "__init__.py" for name in FOUND_BY_NAME)
    waiting = [*by_name, *(_SOURCE / "penstock/spark").rglob("*.py")]
    found: set[Path] = set()
    while waiting:
        module = waiting.pop()
        if module not in found and module.relative_to(_SOURCE).as_posix() not in LEFT_OUT:
            found.add(module)
            waiting += _packages(module)
            waiting += _imported(ast.parse(module.read_bytes()))
    return sorted(found)


def _packages(module: Path) -> Iterator[Path]:
    """The ``__init__`` of each package around a module, which importing it imports."""
    for folder in module.relative_to(_SOURCE).parents[:-1]:
        yield _SOURCE / folder / "__init__.py"


def _imported(tree: ast.AST) -> Iterator[Path]:
    """The modules of ours that a tree imports, except for type checkers only."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        for other in tree.orelse:
            yield from _imported(other)
        return
    if isinstance(tree, ast.Import):
        yield from _files(alias.name for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom) and tree.module:
        yield from _files([tree.module, *(f"{tree.module}.{alias.name}" for alias in tree.names)])
    for child in ast.iter_child_nodes(tree):
        yield from _imported(child)


def _files(names: Iterator[str] | list[str]) -> Iterator[Path]:
    for name in names:
        if name.split(".")[0] == "penstock":
            place = _SOURCE.joinpath(*name.split("."))
            yield from (
                file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()
            )
