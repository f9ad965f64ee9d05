"""The Java calls of `docs/from-rocketmq.md` are in the jars of each version at hand.

`PENSTOCK_ROCKETMQ_JAVA` names folders with the jars of clients and of tools.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.java_table import Row, rows
from tools.harness.rocketmq.java import FOLDERS, missing

JARS = ("client", "common", "tools", "acl", "remoting")
PACKAGES = re.compile(
    r"org/apache/rocketmq/(client/ClientConfig|(client/(consumer|producer|utils)"
    r"|common/(message|consumer)|(common|remoting)/protocol/heartbeat|acl/common|tools/admin)"
    r"/[\w/]+)\.class"
)
OF_OTHERS = {"ListSplitter", "get", "size"}
"""A class of the example itself, and methods of Java's lists."""


@cache
def words(folder: Path) -> set[str]:
    """The names of the public classes, methods and constants that a program may use."""
    names = []
    for jar in JARS:
        for path in folder.glob(f"rocketmq-{jar}-[0-9]*.jar"):
            with ZipFile(path) as entries:
                found = filter(PACKAGES.fullmatch, entries.namelist())
                names += [name.removesuffix(".class").replace("/", ".") for name in found]
    command = ["javap", "-public", "-cp", f"{folder}/*", *names]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    classes = {name.rpartition(".")[2] for name in names}
    return classes | set(re.findall(r"(\w+)(?=[(;])", listed))


def calls(row: Row) -> set[str]:
    """The methods that a row calls, the classes that it makes, the constants that it names."""
    code = re.sub(r'"[^"]*"', "", " ".join(row.java))
    return {*re.findall(r"(\w+)\(", code), *re.findall(r"\b[A-Z][A-Z_]{2,}\b", code)} - OF_OTHERS


@pytest.mark.parametrize("row", [row for row in rows() if row.java], ids=lambda row: row.example)
@pytest.mark.parametrize("version", FOLDERS or ["none"])
def test_java_has_what_is_called(version: str, row: Row) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    if row.is_of_5 and version.startswith("4."):
        pytest.skip("it came with 5.x")
    assert calls(row)
    assert calls(row) <= words(FOLDERS[version])
