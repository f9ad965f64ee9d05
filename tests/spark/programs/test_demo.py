"""``penstock demo`` from start to proof, and interrupted, as a user runs it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.processes import left_over, marked, marked_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

EVENTS = 3000
DEMO = [sys.executable, "-m", "penstock.cli.penstock", "demo"]
PROVEN = (
    "Proven: 3,000 rows in Parquet = 3,000 events published, "
    "none lost, none twice (3,000 consumed live)."
)
FINISH_S_MAX = 150  # 12 s on an idle machine


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
    batches = set(re.findall(r"Spark: \w+ batch (\d+): ", ended.stdout))
    assert len(batches) > 5, "the archive grows in steps"
    assert re.search(r"│ United Air Lines Inc\. +│ +\d+ │ +-?\d+\.\d min │", ended.stdout)
    phases = ("starting Java and Spark", "the archive query is running", "all archived: reading")
    positions = [ended.stdout.index(phase) for phase in phases]
    assert positions == sorted(positions)


def test_the_services_stay_until_ctrl_c_if_that_is_wished(tmp_path: Path) -> None:
    environment = marked_environment()
    with subprocess.Popen(
        [*DEMO, "--rate=0", f"--events={EVENTS}", "--stay"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as demo:  # fmt: skip
        assert demo.stdout is not None
        said = ""
        while not (admin := re.search(r"nsqadmin is at (http://\S+/) until Ctrl-C\n", said)):
            line = demo.stdout.readline()
            assert line, said
            said += line
        assert PROVEN in said
        assert ": stopped" not in said
        with urllib.request.urlopen(f"{admin[1]}api/topics", timeout=30) as answer:
            assert json.load(answer)["topics"] == ["flights"]
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=180)
    assert demo.returncode == 0, rest
    assert rest.startswith("stopping the services\n")
    assert "Everything of this run is in run/demo-" in rest
    assert left_over(environment, 60) == {}


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
        said, _ = demo.communicate(timeout=180)
    assert demo.returncode == 130
    assert "Traceback" not in said
    assert "killed" not in said
    assert re.fullmatch(
        r"Stopped before the end; nothing was proven\. The logs are in run/demo-\w+",
        said.splitlines()[-1],
    )
    assert left_over(environment, 60) == {}
