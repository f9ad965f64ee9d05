"""Tables of a pipeline's file, and the places of their keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.pipelines.document import Document, PipelineFileError, filled, nearest

TEXT = '''\
# a comment
[source]
topic = "t"
"nsqd_http_address" = ["a:1"]

[sql]
query = """
select n
  from input  -- [source]
topic = 7
"""

[[tests]]
name = "one"
[[tests]]
name = "two"
[run]
every = "1s"
'''


def test_lines_of_tables_and_keys() -> None:
    document = Document("p.toml", TEXT)
    assert document.line("source") == 2
    assert document.line("source", "topic") == 3
    assert document.line("source", "nsqd_http_address") == 4
    assert document.line("tests#1", "name") == 16
    assert document.line("run", "every") == 18
    # What stands inside of a text of several lines is neither a header nor a key.
    assert document.line("sql", "topic") == 0


def test_an_error_names_the_place_as_far_as_it_is_known() -> None:
    document = Document("p.toml", TEXT)
    assert str(document.error("run", "every", "no")) == "p.toml:18: [run] no"
    assert str(document.error("run", "other", "no")) == "p.toml:17: [run] no"
    assert str(document.error("tests#0", "name", "no")) == "p.toml:14: [[tests]] no"
    assert str(document.error("", None, "no")) == "p.toml: no"


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(PipelineFileError) as refused:
        Document("p.toml", TEXT).require_known("run", ["evry"], ["every", "checkpoint"])  # sic
    assert str(refused.value) == "p.toml:17: [run] no key evry; did you mean every?"  # sic
    assert nearest("zzz", ["every", "checkpoint"]) == "; there are every, checkpoint"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nb = \n", "p.toml:2: column 5: invalid value"),
        ('[pipeline] name = "x"', "p.toml:1: column 12: expected newline or end of document"),
    ],
)
def test_what_is_no_toml_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(PipelineFileError) as refused:
        Document("p.toml", text)
    assert str(refused.value).startswith(said)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(PipelineFileError, match="cannot be read: No such file"):
        Document.load(missing)
    with pytest.raises(PipelineFileError, match="cannot be read: Is a directory"):
        Document.load(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(PipelineFileError, match="is no UTF-8 text"):
        Document.load(binary)


def test_variables_and_their_defaults() -> None:
    assert filled("${HOST}:${PORT:-4161}$", {"HOST": "h"}) == "h:4161$"
    assert filled("${HOST:-a}", {"HOST": ""}) == ""
    with pytest.raises(KeyError, match="PORT"):
        filled("${PORT}", {})
