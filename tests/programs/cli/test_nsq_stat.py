from __future__ import annotations

from tests.programs.cli.tool_checks import refusal, version


def test_the_version() -> None:
    assert version("nsq_stat") == "nsq_stat v1.3.0\n"


def test_a_wrong_flag_is_one_line_and_the_usage() -> None:
    assert refusal("nsq_stat", "--nosuch").startswith(
        "flag provided but not defined: -nosuch\nUsage of "
    )
