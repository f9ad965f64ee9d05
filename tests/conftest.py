"""What every kind of test shares: where the recorded samples are, how hard hypothesis tries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# In CI the same examples every time; `make decoders` looks for new ones, for long.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("nightly", max_examples=20_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SAMPLES = Path(__file__).parent / "conformance" / "samples"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--samples",
        type=Path,
        default=SAMPLES,
        metavar="DIR",
        help="the folder of recorded exchanges to replay (default: tests/conformance/samples)",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests stay together where several run at once: those of a file, and all with Spark, as
    a process has one session.
    """
    for item in items:
        is_spark = "spark" in item.path.relative_to(Path(__file__).parent).parts
        item.add_marker(pytest.mark.xdist_group("spark" if is_spark else str(item.path)))


@pytest.fixture(scope="session")
def samples_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of recorded exchanges."""
    folder: Path = pytestconfig.getoption("--samples")
    return folder
