"""One line out of Spark's wall of text."""

from __future__ import annotations

import pytest

from penstock.spark.errors import SourceError, explain

WALL = """[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call):
  File "runner.py", line 258, in main
penstock.core.errors.OffsetError: not this one, it was the cause
The above exception was the direct cause of the following exception:
penstock.spark.errors.SourceError: offset 4 of topic t on node a:1 is gone
UnboundLocalError: cannot access local variable 'reader'
\tat org.apache.spark.sql.Foo(Foo.scala:12)
"""


def test_our_own_sentence_is_found_in_a_wall() -> None:
    assert explain(RuntimeError(WALL)) == "offset 4 of topic t on node a:1 is gone"
    assert explain(SourceError("as it is")) == "as it is"


def test_a_foreign_error_is_its_first_line() -> None:
    assert explain(RuntimeError("[TABLE_MISSING] no such table\n\tat org.x")) == "no such table"
    assert explain(RuntimeError("")) == "RuntimeError"


def test_codes_of_spark_are_left_out_and_a_state_of_other_columns_is_explained() -> None:
    error = RuntimeError("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012\n")
    assert explain(error) == "Division by zero. Use `try_divide`."
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


def test_nothing_of_py4j_stands_before_an_error_of_java() -> None:
    wall = (
        "An error occurred while calling o274.start.\n"
        ": org.apache.spark.SparkException: Python worker failed to connect back.\n"
        "\tat org.apache.spark.Foo"
    )
    assert explain(RuntimeError(wall)) == "Python worker failed to connect back."


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
