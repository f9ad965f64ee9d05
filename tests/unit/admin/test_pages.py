from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from penstock.admin.pages import WebFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "js").mkdir()
    (tmp_path / "js" / "a.js").write_text("a")
    (tmp_path / "b.css").write_text("b")
    (tmp_path / "notes.txt").write_text("not of the pages")
    return tmp_path


def test_files_are_kept_by_browsers_for_ever(folder: Path) -> None:
    files = WebFiles(folder, is_live=False)
    assert files.names == ["b.css", "js/a.js"]
    assert files.named(".js") == ["js/a.js"]
    answer = files.answer("js/a.js")
    assert (answer.body, answer.content_type) == (b"a", "text/javascript; charset=utf-8")
    assert dict(answer.headers)["Cache-Control"] == "public, max-age=31536000, immutable"
    assert dict(answer.headers)["X-Content-Type-Options"] == "nosniff"


def test_files_are_packed_once(folder: Path) -> None:
    (folder / "b.css").write_text("b" * 1000)
    files = WebFiles(folder, is_live=False)
    packed = files.answer("b.css", b"br, gzip")
    assert isinstance(packed.body, bytes)
    assert gzip.decompress(packed.body) == b"b" * 1000
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert files.answer("b.css", b"gzip, deflate") is packed
    assert files.answer("b.css", b"br") is files.answer("b.css")


def test_the_version_is_that_of_contents_and_names(folder: Path) -> None:
    versions = {WebFiles(folder, is_live=False).version, WebFiles(folder, is_live=False).version}
    (folder / "b.css").write_text("c")
    versions.add(WebFiles(folder, is_live=False).version)
    (folder / "b.css").rename(folder / "c.css")
    versions.add(WebFiles(folder, is_live=False).version)
    assert len(versions) == 3


def test_live_files_are_read_anew(folder: Path) -> None:
    files = WebFiles(folder, is_live=True)
    (folder / "b.css").write_text("new")
    assert files.answer("b.css").body == b"new"
    assert dict(files.answer("b.css").headers)["Cache-Control"] == "no-store"
    (folder / "b.css").unlink()
    assert files.answer("b.css").status == 404


def test_without_a_folder_there_are_no_files(tmp_path: Path) -> None:
    assert WebFiles(tmp_path / "none", is_live=False).names == []
