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
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.forked import daemons_forked
from tests.own_network import enter_own_network
from tests.spark.class_archive import java_options

# In CI the same examples every time, and few of them in `make check`; `make decoders` looks for new
# ones, for long.
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
# Hypothesis also tries the constants of the project's modules that are loaded, which depend on what
# ran before in the process; with these taken out, CI's examples are the same in every run.
providers._get_local_constants = lambda: providers._local_constants

# A shell has what it runs in the background ignore Ctrl-C, and all that tests start would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Collecting 20,000 tests makes hundreds of thousands of objects that stay.
_GC_THRESHOLDS = gc.get_threshold()
gc.set_threshold(50_000, 20, 100)

os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "tests" / "conformance" / "samples"
FORKED = ("tests.conformance.", "tests.crash.", "tests.interop.", "tests.test_")
SPARK, BROWSER = "tests/spark/", "tests/browser/"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--samples",
        type=Path,
        default=SAMPLES,
        metavar="DIR",
        help="the folder of recorded exchanges to replay (default: tests/conformance/samples)",
    )
    parser.addoption(
        "--all-browser-tests",
        action="store_true",
        help="not only those of tests/browser/briefly.py, and those that are named",
    )


class ByFile(LoadScopeScheduling):
    """Where several tests run at once, those of a file stay together, for what they share; and all
    with the Spark of their process, as a process has one session; and the few with a browser that
    always run, as two clusters with browsers leave each other little of two processors.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if _shares_spark(file):
            return SPARK
        if file.startswith(BROWSER) and not self.config.getoption("--all-browser-tests"):
            return BROWSER
        return file


def _shares_spark(nodeid: str) -> bool:
    return nodeid.startswith(SPARK) and not nodeid.startswith(f"{SPARK}programs/")


def pytest_configure(config: pytest.Config) -> None:
    """Keep processes that test beside each other out of each other's ports."""
    if hasattr(config, "workerinput"):
        enter_own_network()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest of what stays together: else one process ends long after the other."""
    items.sort(key=lambda item: (not _shares_spark(item.nodeid), not item.nodeid.startswith(SPARK)))


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


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    # In the order of collection: the long ones come first.
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture(scope="module", autouse=True)
def forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Daemons that are forks, where nothing measures or looks at how they start."""
    with daemons_forked() if request.module.__name__.startswith(FORKED) else nullcontext():
        yield


@pytest.fixture(scope="session")
def samples_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of recorded exchanges."""
    folder: Path = pytestconfig.getoption("--samples")
    return folder
