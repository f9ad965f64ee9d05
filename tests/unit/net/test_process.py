from __future__ import annotations

import ctypes
import os
import resource

import pytest

from penstock.net import process


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
