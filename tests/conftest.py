"""What every kind of test shares: where the recorded samples are."""

from __future__ import annotations

from pathlib import Path

import pytest

SAMPLES = Path(__file__).parent / "conformance" / "samples"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--samples",
        type=Path,
        default=SAMPLES,
        metavar="DIR",
        help="the folder of recorded exchanges to replay (default: tests/conformance/samples)",
    )


@pytest.fixture(scope="session")
def samples_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of recorded exchanges."""
    folder: Path = pytestconfig.getoption("--samples")
    return folder
