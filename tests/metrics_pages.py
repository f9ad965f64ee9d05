"""Pages of /metrics, read back by the rules of the format and held against what is declared."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

from penstock.core.metrics import catalogue, declared
from penstock.core.metrics.declared import Kind, Metric

PATIENCE_S = 120.0
POLL_S = 0.02
T = TypeVar("T")

_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
_NUMBER = r"NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?"
_SAMPLE = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{((?:{_LABEL})(?:,{_LABEL})*)\}})? ({_NUMBER})"
)


def metrics_of(program: str) -> list[Metric]:
    """The metrics that a program may have, each once."""
    return [each for part in catalogue.PARTS if program in part.programs for each in part.metrics]


class Found(NamedTuple):
    kind: str
    help: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, suffix: str = "", **labels: str) -> float:
        return self.samples[suffix, frozenset(labels.items())]


Page = dict[str, Found]


def parse(text: str) -> Page:
    """The metrics of a page; fails on whatever the format does not allow."""
    assert text.endswith("\n")
    metrics: Page = {}
    lines = iter(text.removesuffix("\n").split("\n"))
    current = ""
    for line in lines:
        if line.startswith("# HELP "):
            _, _, current, help = line.split(" ", 3)
            words = next(lines).split(" ")
            assert words[:3] == ["#", "TYPE", current]
            assert words[3] in ("gauge", "counter", "summary")
            assert current not in metrics, "all samples of a metric stand together"
            assert current.endswith("_total") == (words[3] == "counter")
            metrics[current] = Found(words[3], help, {})
            continue
        found = _SAMPLE.fullmatch(line)
        assert found, line
        metric = metrics[current]
        suffix = found[1].removeprefix(current)
        assert found[1].startswith(current)
        assert suffix in (("", "_sum", "_count") if metric.kind == "summary" else ("",))
        pairs = re.findall(_LABEL, found[2] or "")
        key = (suffix, frozenset(pairs))
        assert key not in metric.samples, f"twice: {line}"
        assert len(key[1]) == len(pairs)
        assert len({name for name, _ in pairs}) == len(pairs)
        metric.samples[key] = float(found[found.lastindex or 0])
    assert all(metric.samples for metric in metrics.values())
    return metrics


def ask(address: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    """Status and text of an answer, whatever the status; with a body by POST."""
    try:
        with urlopen(f"http://{address}{path}", body, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def page_of(address: str, program: str) -> Page:
    """The page of a program, all of whose metrics are declared as they are shown."""
    status, body = ask(address, "/metrics")
    assert status == 200, body
    page = parse(body)
    known = {metric.name: metric for metric in metrics_of(program)}
    for name, found in page.items():
        metric = known[name]
        assert (found.kind, found.help) == (metric.kind, metric.help)
        for suffix, labels in found.samples:
            names = {label for label, _ in labels}
            is_quantile = metric.kind is Kind.SUMMARY and not suffix
            assert names == {*metric.labels, *["quantile"] * is_quantile}, name
    assert page["penstock_info"].samples
    (versions,) = (dict(labels) for _, labels in page["penstock_info"].samples)
    assert versions["program"] == program
    return page


def until(state: Callable[[], T]) -> T:
    """The state, waited for until it is true."""
    for _ in range(int(PATIENCE_S / POLL_S)):
        if found := state():
            return found
        time.sleep(POLL_S)
    raise AssertionError(f"not within {PATIENCE_S:g} s")


def missing(page: Page, metrics: Iterable[declared.Metric]) -> set[str]:
    """The names of the declared metrics that a page does not have."""
    return {metric.name for metric in metrics} - page.keys()
