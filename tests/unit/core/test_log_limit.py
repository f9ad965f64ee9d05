from __future__ import annotations

from penstock.core.log_limit import LINES, WINDOW_NS, LogLimit


def test_so_many_lines_a_window_and_the_rest_is_counted() -> None:
    limit = LogLimit()
    said = [limit.take_line(5) for _ in range(LINES + 7)]
    assert said == [True] * LINES + [False] * 7
    assert not limit.take_line(5 + WINDOW_NS - 1)
    assert limit.take_line(5 + WINDOW_NS)
    assert (limit.take_kept_back(), limit.take_kept_back()) == (8, 0)


def test_the_end_of_a_line_tells_how_many_were_kept_back() -> None:
    limit = LogLimit()
    assert limit.told_kept_back() == ""
    for _ in range(LINES + 2):
        limit.take_line(5)
    assert limit.told_kept_back() == " (2 lines like this were kept back)"
    assert limit.told_kept_back() == ""
