"""What a pipeline is run with: flags as options of its source, Spark here or by spark-submit."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live.display import Board
from penstock.cli.penstock import app
from penstock.cli.pipeline import run_command
from penstock.cli.pipeline.local_spark import local_spark
from penstock.cli.pipeline.node_flags import PipelineNodeFlags, seconds
from penstock.cli.pipeline.run_command import in_flags, run_archive
from penstock.cli.pipeline.status import StatusFile
from penstock.cli.pipeline.submit import Submission, command, environment, run_submit, spark_submit
from penstock.cli.shared.stop import Stop
from penstock.core.errors import PenstockError
from penstock.spark import session as session_module
from penstock.spark.pipelines import Pipeline, archive, submitted
from penstock.spark.pipelines.document import Document
from penstock.spark.pipelines.spec import read
from penstock.spark.source_settings import SourceSettings


def test_errors_use_the_words_of_the_flags(tmp_path: Path) -> None:
    def refuse(**source: str) -> str:
        given = {"topic": "t", "timeout": "1", **source}
        with pytest.raises(PenstockError) as refused:
            run_archive(given, str(tmp_path), str(tmp_path), available_now=True, every="1s")
        return str(refused.value)

    assert refuse().startswith(
        "say where the nodes are: --lookupd-http-address or --nsqd-http-address"
    )
    assert refuse(nsqd_http_address="nohost").startswith("--nsqd-http-address must be host:port")
    assert refuse(topic="").startswith("--topic is missing")
    # Spark was not started yet, and this first look has a timeout of its own.
    assert refuse(nsqd_http_address="127.0.0.1:9") == (
        "node 127.0.0.1:9 cannot be reached for topic t: connection refused (tried for 1 s); "
        "start it and run the same command to go on"
    )
    assert in_flags("tried for 10 s; option timeout") == "tried for 10 s; --timeout"
    assert in_flags("set tls_v1=true, and tls_root_ca_file if") == (
        "set --tls-v1, and --tls-root-ca-file if"
    )


def test_display_and_ctrl_c_do_not_wait_for_a_node_as_long_as_the_query_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(run_command, "Cluster", lambda settings: asked.append(settings.timeout_s))
    source = {"topic": "t", "nsqd_http_address": "h:1"}
    display: Any = None
    for patient in ("600", "1"):
        spec = archive.pipeline(source | {"timeout": patient}, "lake", "s3a://b/c").spec
        run_command._View(spec, Board(""), display, StatusFile("s3a://b/c"), Stop())
    assert asked == [3, 1]


TEXT = """
[source]
topic = "t"
nsqd_http_address = "h:1"
[sink]
format = "delta"
[run]
packages = "io.delta:delta-spark_2.13:4.0.0"
settings = {"spark.driver.memory" = "2g"}
"""


def test_it_has_what_each_of_the_pipelines_needs_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    stopped: list[str] = []

    def session(master: str, *, settings: dict[str, str], log: Any) -> str:
        asked.update(settings)
        return "spark"

    monkeypatch.setattr(session_module, "session", session)
    monkeypatch.setattr(session_module, "stop", stopped.append)
    others = ("", 'packages = ["a:b:1", "io.delta:delta-spark_2.13:4.0.0"]', 'packages = "c:d:2"')
    texts = [TEXT, *(TEXT.partition("[run]")[0] + f"[run]\n{other}\n" for other in others)]

    def look() -> None:
        with local_spark([Pipeline(read(Document("p.toml", text), {})) for text in texts]) as spark:
            assert str(spark) == "spark"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look()
    assert stopped == ["spark"]
    assert asked["spark.jars.packages"] == "io.delta:delta-spark_2.13:4.0.0,a:b:1,c:d:2"
    assert asked["spark.driver.memory"] == "2g"


def test_a_terminal_is_told_what_a_command_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session_module, "session", lambda *_, **__: "spark")
    monkeypatch.setattr(session_module, "stop", lambda _: None)
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        with local_spark():
            said = capsys.readouterr().err
        waits = "starting Java and Spark (about 10 s) ...\r\x1b[K"
        assert said == (waits if is_terminal else "")
    with local_spark([Pipeline(read(Document("p.toml", TEXT), {}))]):
        assert "which fetches io.delta:delta-spark_2.13:4.0.0 the" in capsys.readouterr().err


def test_timeouts_are_whole_seconds() -> None:
    assert seconds("--timeout", "10s") == "10"
    assert seconds("--timeout", "10ms") == "1"
    with pytest.raises(PenstockError, match=r"^--timeout soon: give a duration such as"):
        PipelineNodeFlags(timeout="soon").options()


def test_flags_are_options_of_the_source() -> None:
    nodes = PipelineNodeFlags(
        lookupd_http_address=("l:4161", "m:4161"),
        timeout="1m",
        tls_v1=True,
        tls_root_ca_file=Path("/ca.pem"),
        tls_cert=Path("/c.pem"),
        tls_key=Path("/k.pem"),
        tls_server_name="name",
        tls_insecure_skip_verify=True,
        auth_secret="secret",
    )
    settings = SourceSettings.parse({"topic": "t", **nodes.options()})
    assert settings.lookupd == ("l:4161", "m:4161")
    access = settings.access
    assert (access.timeout_s, access.tls, access.verify) == (60, True, False)
    assert (access.root_ca_file, access.cert, access.key) == ("/ca.pem", "/c.pem", "/k.pem")
    assert (access.server_name, access.auth_secret) == ("name", "secret")
    assert PipelineNodeFlags(nsqd_http_address=("h:1",)).options() == {
        "nsqd_http_address": "h:1",
        "timeout": "10",
    }


def test_the_archive_takes_the_flags_of_tls_and_secrets_and_places_of_hadoop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        run_command, "run_archive", lambda source, *places, **_: given.extend((source, *places))
    )
    monkeypatch.setenv("PENSTOCK_AUTH_SECRET", "s3cret")
    app(
        ["pipeline", "run", "archive", "--topic=t", "--to=hdfs://nn:8020/lake",
         "--checkpoint=hdfs://nn:8020/c", "--nsqd-http-address=h:1", "--nsqd-http-address=i:1",
         "--tls-v1", "--tls-root-ca-file=/ca.pem"],
        result_action="return_value",
    )  # fmt: skip
    source, *places = given
    assert source == {
        "topic": "t", "timeout": "10", "nsqd_http_address": "h:1,i:1", "tls_v1": "true",
        "tls_root_ca_file": "/ca.pem", "auth_secret": "s3cret",
    }  # fmt: skip
    assert list(map(str, places)) == ["hdfs://nn:8020/lake", "hdfs://nn:8020/c"]


FILE = """
[pipeline]
name = "clicks"
[source]
topic = "t"
nsqd_http_address = "h:4151"
[sink]
format = "delta"
path = "s3a://lake"
[run]
packages = ["a:b:1", "c:d:2"]
settings = {"spark.executor.memory" = "2g"}
"""


def test_a_dry_run_prints_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text(FILE)
    order = Submission(file, "yarn", "cluster", True, ("--num-executors", "4"))
    run_submit(order, dry_run=True)
    line = shlex.split(capsys.readouterr().out)
    zip_ = line[line.index("--py-files") + 1]
    assert Path(zip_).exists()
    assert line == [
        "spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--name", "clicks",
        "--py-files", zip_, "--files", str(file), "--packages", "a:b:1,c:d:2",
        "--conf", "spark.executor.memory=2g", "--num-executors", "4",
        str(submitted.__file__), str(file), "--available-now",
    ]  # fmt: skip


def test_the_program_and_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(PenstockError, match=f"^SPARK_HOME is {tmp_path}, where no bin/"):
        spark_submit()
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.touch(0o755)
    assert spark_submit() == str(program)
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("PATH", "")
    assert Path(spark_submit()).parts[-3:] == ("pyspark", "bin", "spark-submit")


def test_a_driver_here_gets_this_python_if_none_is_chosen_and_one_elsewhere_its_own(
    tmp_path: Path,
) -> None:
    here = Submission(Path("f.toml"), "yarn")
    assert environment(here, {"JAVA_HOME": "/java"})["PYSPARK_DRIVER_PYTHON"] == sys.executable
    given = {"JAVA_HOME": "/java", "PYSPARK_DRIVER_PYTHON": "/p"}
    assert environment(here, given) == given
    file = tmp_path / "clicks.toml"
    file.write_text(FILE)
    elsewhere = Submission(file, "k8s://https://h:6443", "cluster")
    assert environment(elsewhere, {"JAVA_HOME": "/java"}) == {"JAVA_HOME": "/java"}
    line = command(elsewhere, Pipeline.from_file(file), tmp_path / "p.zip", "spark-submit")
    assert "spark.kubernetes.driverEnv.PYTHONPATH=p.zip" in line
