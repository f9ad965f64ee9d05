from __future__ import annotations

from rich.console import Console

from penstock.nsq.tools.tail_view import ColourView, PlainView


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
