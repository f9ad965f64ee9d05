"""A process: its memory, its files, and pipes that do not wait."""

from __future__ import annotations

import ctypes
import io
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from threading import Thread
from typing import Any

import pytest

from penstock.net import process
from penstock.net.descriptors import make_output_wait, read_some, write_all


def test_memory() -> None:
    resident, virtual = process.memory()
    assert 10_000_000 < resident < virtual


def test_processor_time_grows() -> None:
    before = process.cpu_seconds()
    while process.cpu_seconds() == before:
        sum(range(10_000))
    assert process.cpu_seconds() > before > 0


def test_open_files() -> None:
    before = process.open_files()
    reader, writer = os.pipe()
    try:
        assert process.open_files() == before + 2
    finally:
        os.close(reader)
        os.close(writer)
    most = process.open_files_max()
    assert most is None or most == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_the_free_heap() -> None:
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        assert process.free_heap() == 0
        return
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = (ctypes.c_size_t,)
    libc.free.argtypes = (ctypes.c_void_p,)
    *blocks, last = [libc.malloc(60_000) for _ in range(200)]
    used = process.free_heap()
    for block in blocks:  # the last one stays, or the heap would shrink by itself
        libc.free(block)
    assert process.free_heap() > used + 5_000_000
    process.release_free_heap()
    libc.free(last)


def test_without_proc_and_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    monkeypatch.setattr("os.listdir", missing)
    assert process.memory() == (0, 0)
    assert process.open_files() == 0
    monkeypatch.setattr("penstock.net.process._c_function", lambda name, result: None)
    assert process.free_heap() == 0
    assert process.release_free_heap() is False


def test_a_function_that_the_c_library_lacks() -> None:
    assert process._c_function("no_such_function_anywhere", ctypes.c_int) is None


MUCH = bytes(range(256)) * 2_000  # more than a pipe holds


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe that do not wait by themselves."""
    reader, writer = os.pipe2(os.O_NONBLOCK)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def read_of(descriptor: int, nbytes: int) -> bytes:
    got = b""
    while len(got) < nbytes:
        got += read_some(descriptor, nbytes - len(got))
    return got


def test_all_is_written_and_read(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    writing = Thread(target=write_all, args=(writer, MUCH), daemon=True)
    writing.start()
    assert read_of(reader, len(MUCH)) == MUCH
    writing.join()


def test_the_end_is_no_bytes() -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    os.close(writer)
    assert read_some(reader, 10) == b""
    os.close(reader)


def test_a_reader_who_has_gone_is_an_error() -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        write_all(writer, b"x")
    os.close(writer)


def test_print_waits(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    lines = ["x" * 100] * 5_000

    def work() -> None:
        with open(writer, "w", encoding="utf-8", closefd=False) as out, redirect_stdout(out):
            make_output_wait()
            for line in lines:
                print(line)
            sys.stdout.flush()

    printing = Thread(target=work, daemon=True)
    printing.start()
    whole = "".join(f"{line}\n" for line in lines).encode()
    assert read_of(reader, len(whole)) == whole
    printing.join()


def test_the_stream_stays_as_it_is_otherwise(pipe: tuple[int, int]) -> None:
    _, writer = pipe
    given: dict[str, Any] = {
        "encoding": "latin-1",
        "errors": "replace",
        "buffering": 1,
        "closefd": False,
    }
    with open(writer, "w", **given) as out, redirect_stderr(out):
        make_output_wait()
        assert sys.stderr is not out
        assert (sys.stderr.encoding, sys.stderr.errors) == ("latin-1", "replace")
        assert isinstance(sys.stderr, io.TextIOWrapper)
        assert sys.stderr.line_buffering


def test_what_is_not_buffered_is_not_kept_back(pipe: tuple[int, int]) -> None:
    """As with PYTHONUNBUFFERED, where the lines of a program that goes on are read."""
    reader, writer = pipe
    with (
        open(writer, "wb", buffering=0, closefd=False) as raw,
        io.TextIOWrapper(raw, write_through=True) as out,
        redirect_stdout(out),
    ):
        make_output_wait()
        assert sys.stdout is not out
        print("line")
        assert os.read(reader, 10) == b"line\n"


def test_a_stream_that_waits_by_itself_is_left_alone() -> None:
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as out, redirect_stdout(out):
        make_output_wait()
        assert sys.stdout is out
        out.close()
        make_output_wait()
        assert sys.stdout is out
    os.close(reader)
    with redirect_stdout(io.StringIO()) as text:
        make_output_wait()
        assert sys.stdout is text
