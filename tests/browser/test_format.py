"""format.js: figures as people read them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from .modules import load, run

FIGURES = {
    "count(1234567)": "1,234,567",
    "count(0)": "0",
    "count(-1500)": "-1,500",
    "short(950)": "950",
    "short(999)": "999",
    "short(1000)": "1 k",
    "short(1234567)": "1.23 M",
    "short(999999)": "1 M",
    "short(-20500)": "-20.5 k",
    "short(7e18)": "7000 P",
    "rate(0)": "0/s",
    "rate(0.04)": "<0.1/s",
    "rate(0.34)": "0.3/s",
    "rate(12.34)": "12.3/s",
    "rate(99.97)": "100/s",
    "rate(250.4)": "250/s",
    "rate(1234)": "1.23 k/s",
    "bytes(0)": "0 B",
    "bytes(1023)": "1023 B",
    "bytes(1024)": "1 KiB",
    "bytes(1024 * 1024 - 1)": "1 MiB",
    "bytes(1.5 * 2 ** 30)": "1.5 GiB",
    "duration(0)": "0 ns",
    "duration(850)": "850 ns",
    "duration(1500)": "1.5 µs",
    "duration(1234567)": "1.23 ms",
    "duration(999.9e3)": "1 ms",
    "duration(2.5e9)": "2.5 s",
    "duration(200e9)": "3m 20s",
    "seconds(0)": "0s",
    "seconds(59.6)": "1m",
    "seconds(7500)": "2h 5m",
    "seconds(3600)": "1h",
    "seconds(90061)": "1d 1h",
    "seconds(-30)": "-30s",
    "ago(100, 100.5)": "just now",
    "ago(100, 130)": "30 s ago",
    "ago(100, 300)": "3 min ago",
    "ago(0, 7300)": "2 h ago",
    "ago(0, 200000)": "2 d ago",
    "ago(160, 100)": "in 1m",
    "clock(1770000000.9)": "02:40:00",
    "stamp(1770000000123456789)": "2026-02-02 02:40:00.123",
}


def test_figures(open_page: Any) -> None:
    page: Page = open_page(timezone_id="UTC")
    load(page, "core/format.js")
    found = {call: run(page, f"return modules.{call}") for call in FIGURES}
    assert found == FIGURES


def test_what_is_not_known_is_a_dash(page: Page) -> None:
    load(page, "core/format.js")
    for name in ("count", "short", "rate", "bytes", "duration", "seconds", "ago", "clock", "stamp"):
        for unknown in ("null", "undefined", "NaN", "Infinity"):
            assert run(page, f"return modules.{name}({unknown})") == "–", (name, unknown)
