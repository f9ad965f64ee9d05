from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from rich.console import Console

from penstock.net.tasks import spawn
from penstock.nsq.tools.errors import OutputClosed
from penstock.nsq.tools.tail import ColourView, PlainView, Stdout


async def test_a_file_gets_all_of_it(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        output = Stdout(file.fileno())
        await output.write(b"one\n")
        await output.write(b"two\n")
        await output.closed()  # there is no reader who could go
    assert (tmp_path / "f").read_bytes() == b"one\ntwo\n"


async def test_a_slow_reader_does_not_hold_up_the_loop() -> None:
    reader, writer = os.pipe()
    data = bytes(1_000_000)  # more than a pipe holds
    try:
        writing = spawn(Stdout(writer).write(data), "write")
        await asyncio.sleep(0.01)
        assert not writing.done()
        got = 0
        while got < len(data):
            got += len(await asyncio.to_thread(os.read, reader, 1 << 16))
        await writing
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_pipe_that_does_not_wait_gets_all_of_it() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = bytes(1_000_000)  # more than a pipe holds

    async def write() -> None:
        try:
            await Stdout(writer).write(data)
        finally:
            os.close(writer)  # after which the reader gets what is left, and the end

    writing = spawn(write(), "write")
    try:
        got = 0
        while part := await asyncio.to_thread(os.read, reader, 1 << 16):
            got += len(part)
        await writing
        assert got == len(data)
    finally:
        os.close(reader)


async def test_a_reader_who_goes_is_noticed() -> None:
    reader, writer = os.pipe()
    try:
        output = Stdout(writer)
        waiting = asyncio.gather(output.closed(), return_exceptions=True)
        os.close(reader)
        assert isinstance((await waiting)[0], OutputClosed)
        with pytest.raises(OutputClosed):
            await output.write(b"x")
    finally:
        os.close(writer)


def coloured(topic: str, *bodies: bytes, print_topic: bool = False, colours: bool = False) -> str:
    console = Console(
        width=40, force_terminal=colours, color_system="standard" if colours else None
    )
    view = ColourView(console, ["long_topic", "t"], print_topic)
    return view.render(topic, bodies).decode()


def test_a_program_gets_the_bytes() -> None:
    bodies = [b"one", b"\xff\x00", b"with\nnewline"]
    assert PlainView(False).render("t", bodies) == b"one\n\xff\x00\nwith\nnewline\n"
    assert PlainView(True).render("t", bodies[:2]) == b"t | one\nt | \xff\x00\n"


def test_topics_stand_in_a_column_and_lines_under_each_other() -> None:
    assert coloured("t", b"a\nb", print_topic=True) == "t          │ a\n           │ b\n"
    assert coloured("long_topic", b"c", print_topic=True) == "long_topic │ c\n"


def test_a_person_is_safe_from_control_characters() -> None:
    assert coloured("t", b"\x1b[2Jx\x07\r", b"\xff", "\u202ey".encode()) == (
        "\\x1b[2Jx\\x07\\x0d\n\\xff\n\\u202ey\n"
    )
    assert coloured("t", b"a\r\nb") == "a\nb\n"


def test_long_bodies_are_not_cut_or_folded() -> None:
    assert coloured("t", b"x" * 100) == "x" * 100 + "\n"


def test_json_has_colours_and_markup_has_none() -> None:
    assert "\x1b[" in coloured("t", b'{"a": 1}', colours=True)
    assert coloured("t", b"[bold]x[/bold]") == "[bold]x[/bold]\n"
