"""What every kind of test shares: where the recorded samples are, how hard hypothesis tries."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.own_network import enter_own_network
from tests.reporting import expected_s
from tools.harness.class_archive import java_options
from tools.harness.forking import daemons_forked
from tools.harness.samples import RECORDINGS

# In CI the same examples every time, and few of them in `make check`; HYPOTHESIS_PROFILE=nightly
# looks for new ones, for long.
# On a busy machine examples are slow to make, which says nothing of the tests.
BUSY = [HealthCheck.too_slow]
settings.register_profile(
    "ci", max_examples=50, derandomize=True, deadline=None, suppress_health_check=BUSY
)
settings.register_profile(
    "quick", max_examples=20, derandomize=True, deadline=None, suppress_health_check=BUSY
)
settings.register_profile("nightly", max_examples=20_000, deadline=None, suppress_health_check=BUSY)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell has what it runs in the background ignore Ctrl-C, and all that tests start would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Collecting 20,000 tests makes hundreds of thousands of objects that stay.
_GC_THRESHOLDS = gc.get_threshold()
gc.set_threshold(50_000, 20, 100)

os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())

ROOT = Path(__file__).parent.parent
# What `make test` leaves to `make nightly`; tests/README.md says what each of them proves.
NIGHTLY = ("browser", "campaigns", "fuzz", "hostile", "interop", "spark")
IN_BOTH = (
    "browser/test_smoke.py",
    "interop/test_clients.py",
    "interop/test_rocketmq_clients.py",
    "spark/test_smoke.py",
    "spark/test_tutorial.py",
)
# Where daemons are forks of a process that has imported them, and where they are started as users
# start them after all, since that is what the tests are about.
FORKED = ("conformance/", "crash/", "dialects/", "interop/", "programs/", "test_")
STARTED = (
    "programs/cli/doctor/test_run",
    "programs/cli/test_mq",
    "programs/cli/test_nsq",
    "programs/cli/test_starts",
    "programs/core/metrics/",
    "programs/testing/",
    "test_testing_page",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--samples",
        type=Path,
        default=RECORDINGS,
        metavar="DIR",
        help="the folder of recorded exchanges to replay (default: tests/conformance/samples)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep processes that test beside each other out of each other's ports."""
    if hasattr(config, "workerinput"):
        enter_own_network()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those that take long: else one process would end long after the others."""
    for item in items:
        path = item.path.relative_to(ROOT / "tests")
        if path.parts[0] in NIGHTLY and path.as_posix() not in IN_BOTH:
            item.add_marker(pytest.mark.nightly)
    items.sort(key=lambda item: -expected_s(item.nodeid))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import a share of the test files, where several processes are about to import all of them.

    Their assertions are rewritten when they are imported the first time, which takes longer than
    all else of the collection, and what one process has written down is there for the others.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(ROOT.glob("tests/**/test_*.py"))[number::count]:
        with suppress(Exception, pytest.skip.Exception):  # the collection tells
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Set the collected tests aside, as each full garbage collection would look through them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


@pytest.fixture(scope="module", autouse=True)
def forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Daemons that are forks, where nothing measures or looks at how they start."""
    path = request.path.relative_to(ROOT / "tests").as_posix()
    is_forked = path.startswith(FORKED) and not path.startswith(STARTED)
    with daemons_forked() if is_forked else nullcontext():
        yield


@pytest.fixture(scope="session")
def samples_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of recorded exchanges."""
    folder: Path = pytestconfig.getoption("--samples")
    return folder
