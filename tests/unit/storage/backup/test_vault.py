"""The vault keeps bytes once, and knows another history by its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.storage.backup.manifest import Entry, Manifest
from penstock.storage.backup.vault import TAIL_BYTES, Vault
from penstock.storage.files.disk import OsDisk

DISK = OsDisk()


def grown(vault: Vault, data: bytes) -> Entry:
    def read(position: int, nbytes: int) -> bytes:
        return data[position : position + nbytes]

    return vault.grow("q/f", "q/f", read, lambda known: len(data))


def of(folder: Path, *entries: Entry) -> Vault:
    return Vault(DISK, str(folder), [Manifest("/data", 0, list(entries))])


def content(folder: Path, entry: Entry) -> bytes:
    Vault(DISK, str(folder), []).restore(entry, str(folder / "target"))
    data = (folder / "target").read_bytes()
    (folder / "target").unlink()
    return data


def test_a_file_is_kept_once_by_its_content(tmp_path: Path) -> None:
    vault = of(tmp_path)
    entries = [vault.keep(name, b"same") for name in ("a", "b")]
    assert (vault.copied, {each.stored for each in entries}) == (4, {entries[0].stored})
    assert [content(tmp_path, each) for each in entries] == [b"same"] * 2


def test_a_growing_file_takes_the_new_bytes_only(tmp_path: Path) -> None:
    first = grown(of(tmp_path), b"x" * 2 * TAIL_BYTES)
    vault = of(tmp_path, first)
    second = grown(vault, b"x" * 2 * TAIL_BYTES + b"new")
    assert (vault.copied, second.stored) == (3, first.stored)
    assert content(tmp_path, first) == b"x" * 2 * TAIL_BYTES
    assert content(tmp_path, second)[-4:] == b"xnew"


@pytest.mark.parametrize("other", [b"x", b"xy1", b"xx2 and on", b""])
def test_another_history_gets_a_file_of_its_own(tmp_path: Path, other: bytes) -> None:
    first = grown(of(tmp_path), b"xx1")
    second = grown(of(tmp_path, first), other)
    assert second.stored == "q/f-1"
    third = grown(of(tmp_path, first, second), other + b"!")
    assert third.stored == second.stored
    assert [content(tmp_path, each) for each in (first, second, third)] == [
        b"xx1", other, other + b"!"
    ]  # fmt: skip


def test_what_becomes_shorter_while_it_is_copied_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="has become shorter"):
        of(tmp_path).grow("f", "f", lambda position, nbytes: b"", lambda known: 3)


def test_what_nothing_lists_is_pruned(tmp_path: Path) -> None:
    vault = of(tmp_path)
    kept, gone = vault.keep("a", b"1"), vault.keep("b", b"2")
    growing = grown(vault, b"3")
    vault.prune([Manifest("/data", 0, [kept])])
    assert content(tmp_path, kept) == b"1"
    for each in (gone, growing):
        with pytest.raises(StorageError, match="missing"):
            content(tmp_path, each)
