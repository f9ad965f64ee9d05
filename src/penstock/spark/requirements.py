"""The requirements of Spark on this machine: the packages of the extra ``spark``, and Java."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from penstock.core.distribution import pip_install
from penstock.core.errors import PenstockError
from penstock.spark.java import find_java

_PACKAGES: Final = ("pyspark", "pyarrow")


class PackagesMissingError(PenstockError):
    """The extra ``spark`` is not installed."""


def require_packages(
    needs: str = "Spark needs", more: Sequence[str] = (), extras: Sequence[str] = ("spark",)
) -> None:
    """Raise PackagesMissingError unless Spark's packages and ``more`` are installed.

    It says who ``needs`` them, and the extras that bring them all.
    """
    missing = [package for package in (*_PACKAGES, *more) if find_spec(package) is None]
    if missing:
        *first, last = missing
        named = f"{', '.join(first)} and {last}" if first else last
        raise PackagesMissingError(f"{needs} {named}: {pip_install(*extras)}")


def require_spark() -> None:
    """Raise PackagesMissingError or NoJavaError unless Spark can be started here."""
    require_packages()
    find_java()
