"""The commands as they are typed, up to the work itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.penstock import app, main
from penstock.cli.pipeline import run, submit
from penstock.spark import requirements

FILE = """
[source]
topic = "t"
nsqd_http_address = "127.0.0.1:4151"
[sink]
format = "console"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_run_with_its_own_pace_or_the_flags(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, object]] = []
    monkeypatch.setattr(
        run, "run_pipeline", lambda pipeline, trigger: ran.append((pipeline.spec.name, trigger))
    )
    for flags in ([], ["--available-now"], ["--every", "2s"]):
        app(["pipeline", "run", str(file), *flags], result_action="return_value")
    assert ran == [
        ("clicks", None),
        ("clicks", {"availableNow": True}),
        ("clicks", {"processingTime": "2000 milliseconds"}),
    ]


def test_a_wrong_key_is_one_line_before_spark_starts(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(FILE.replace("topic", "topik"))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "run", str(file)])
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"penstock: {file}:3: [source] format nsq knows no option topik; did you mean topic?\n"
    )


def test_no_message_in_a_batch_is_refused_not_taken_for_any_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "require_spark", lambda: None)
    monkeypatch.setattr(run, "run_pipeline", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main(
            ["pipeline", "run", "archive", "--topic", "t", "--to", str(tmp_path / "lake"),
             "--checkpoint", str(tmp_path / "c"), "--nsqd-http-address", "127.0.0.1:4151",
             "--max-records-per-trigger", "0"]
        )  # fmt: skip
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "penstock: --max-records-per-trigger must be a positive whole number, not '0'\n"
    )


def test_options_of_spark_submit_follow_two_dashes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[tuple[submit.Submission, bool]] = []
    monkeypatch.setattr(
        submit, "run_submit", lambda order, *, dry_run: orders.append((order, dry_run))
    )
    app(
        ["pipeline", "submit", str(file), "--master", "yarn", "--dry-run", "--",
         "--num-executors", "4"],
        result_action="return_value",
    )  # fmt: skip
    order = submit.Submission(file, "yarn", options=("--num-executors", "4"))
    assert orders == [(order, True)]


def test_init_writes_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app(["pipeline", "init", "metrics"], result_action="return_value")
    app(["pipeline", "init", "archive", "lake.toml"], result_action="return_value")
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.toml", "lake.toml"}
