"""``penstock demo`` from start to proof, and interrupted, as a user runs it.

What ``--stay`` adds once Spark has ended is in tests/programs/cli/test_up.py.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from itertools import islice
from pathlib import Path
from statistics import fmean

import pytest

from penstock.cli.live import flights
from tools.harness.processes import left_over, marked, marked_environment, rest_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

EVENTS = 3000
DEMO = [sys.executable, "-m", "penstock.cli.penstock", "demo"]
PROVEN = (
    "Proven: 3,000 rows in Parquet = 3,000 events published, "
    "none lost, none twice (3,000 consumed live)."
)
FINISH_S_MAX = 600  # 12 s on an idle machine


def means() -> list[tuple[str, str, str]]:
    """Carrier, flights and mean delay of those events, as the table says them."""
    names, delays = flights.airlines(), defaultdict[str, list[float | None]](list)
    for event in islice((event for chunk in flights.events() for event in chunk), EVENTS):
        row = json.loads(event)
        delays[row["carrier"]].append(row["dep_delay"])
    return [
        (names[carrier], str(len(each)), f"{fmean(n for n in each if n is not None):.1f}")
        for carrier, each in delays.items()
    ]


def test_from_start_to_proof(tmp_path: Path) -> None:
    environment = marked_environment()
    ended = subprocess.run(
        [*DEMO, f"--events={EVENTS}", "--rate=0"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=FINISH_S_MAX,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    assert left_over(environment, 60) == {}
    lines = ended.stdout.splitlines()
    assert PROVEN in lines
    assert re.fullmatch(r"From start to proof: \d+\.\d s", lines[lines.index(PROVEN) + 1])
    last = re.search(r"\nEverything of this run is in (run/demo-\w+):\n", ended.stdout)
    assert last
    assert list((tmp_path / last[1] / "archive").rglob("*.parquet"))
    for place in re.findall(rf"^  ({last[1]}/\S+)  ", ended.stdout, re.MULTILINE):
        assert list(tmp_path.glob(place)), place
    assert lines[-1] == "Next: `penstock demo --stay` leaves nsqadmin's pages open to look at"
    assert re.search(r"Spark: \w+ batch \d+: ", ended.stdout)
    commits = tmp_path / last[1] / "checkpoint" / "commits"
    batches = [each for each in commits.iterdir() if each.name.isdecimal()]
    assert len(batches) > 5, "the archive grows in steps"
    found = re.findall(r"│ (\S.*?) +│ +(\d+) │ +(-?\d+\.\d) min │", ended.stdout)
    assert sorted(found) == sorted(means())
    phases = ("starting Java and Spark", "the archive query is running", "all archived: reading")
    positions = [ended.stdout.index(phase) for phase in phases]
    assert positions == sorted(positions)


def until_it_is_in_nsqadmin(admin: str) -> None:
    """Return when nsqadmin shows the archive as running."""
    deadline = time.monotonic() + FINISH_S_MAX
    shown: list[tuple[str, str]] = []
    while shown != [("archive", "running")]:
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
        with urllib.request.urlopen(f"{admin}/api/pipelines", timeout=30) as answer:
            shown = [(each["name"], each["state"]) for each in json.load(answer)["pipelines"]]


def test_an_interrupted_demo_proves_nothing_and_leaves_nothing_running(tmp_path: Path) -> None:
    environment = marked_environment()
    with subprocess.Popen(
        [*DEMO, "--rate=200"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as demo:  # fmt: skip
        assert demo.stdout is not None
        said = ""
        while not re.search(r"consumed [1-9]", said):
            line = demo.stdout.readline()
            assert line, said
            said += line
        assert len(marked(environment)) >= 6
        admin = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert admin, said
        until_it_is_in_nsqadmin(admin[0])
        demo.send_signal(signal.SIGINT)
        said = rest_of(demo, FINISH_S_MAX)
    assert demo.returncode == 130
    assert "Traceback" not in said
    assert "killed" not in said
    assert re.fullmatch(
        r"Stopped before the end; nothing was proven\. The logs are in run/demo-\w+",
        said.splitlines()[-1],
    )
    assert left_over(environment, 60) == {}
