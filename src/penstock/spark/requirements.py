"""The requirements of Spark on this machine: the packages of the extra ``spark``, and Java."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from penstock.core.errors import PenstockError
from penstock.spark.java import find_java

_PACKAGES: Final = ("pyspark", "pyarrow")


class PackagesMissingError(PenstockError):
    """The extra ``spark`` is not installed."""


def require_packages() -> None:
    """Raise PackagesMissingError unless the packages are installed."""
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise PackagesMissingError(
            f"Spark needs {' and '.join(missing)}: pip install 'penstock[spark]'"
        )


def require_spark() -> None:
    """Raise PackagesMissingError or NoJavaError unless Spark can be started here."""
    require_packages()
    find_java()
