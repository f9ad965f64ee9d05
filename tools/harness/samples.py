"""Loading recorded exchanges, and comparing texts that hold placeholders.

A sample's text may hold `{port}` or `<int>` where the original's value changes from run to run:
`matches` lets any value of that kind stand there. Names given in `values` must match exactly.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Case = dict[str, Any]
RECORDINGS = Path(__file__).parents[2] / "tests" / "conformance" / "samples"

_INT = r"-?[0-9]+"
_TIME = r"[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
_DURATION = r"-?(?:[0-9.]+(?:ns|µs|us|ms|s|m|h))+"

_VOLATILE = {
    "{port}": "[0-9]+",
    "{ns}": _INT,
    "{ms}": _INT,
    "{id}": "[0-9a-f]{16}",
    "{pid}": "[0-9]+",
    "{timestamp}": _INT,
    "{connect_ts}": _INT,
    "{connected}": ".*?",
    "{start_time}": _INT,
    "{duration}": _DURATION,
    "{ts}": _TIME,
    "{go_version}": r"[^\s)]+",
    "{6 digits}": "[0-9]{6}",
    "<version>": r"[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*",
    "<go>": r"[^\s)]+",
    "<int>": _INT,
    "<number>": r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?",
    "<dur>": _DURATION,
    "<duration>": _DURATION,
    "<rfc3339>": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2})",
    "<date>": "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT",
    "<time>": _TIME,
    "<hostname>": r"[^\s\"]+",
    "<port>": "[0-9]+",
    "<data-path>": r"[^\s\"]+",
    "<config-file>": r"\S+",
    "<padded>": r"\s*\S+\s*",
}
_PLACEHOLDER = re.compile(r"\{[a-z0-9_ ]+\}|<[a-z0-9-]+>")


def load(file: Path) -> list[Case]:
    """The cases of one sample file, in the order in which they were recorded."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def matches(expected: str, actual: str, values: Mapping[str, str] | None = None) -> bool:
    """Whether `actual` is what `expected` says, placeholders standing for their kind of value.

    `values` maps a placeholder's bare name (`host`) to the one text that may stand for it.
    """
    known = tuple(sorted((values or {}).items()))
    return _pattern(expected, known).fullmatch(actual) is not None


@functools.lru_cache(maxsize=512)
def _pattern(expected: str, values: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    known = dict(values)
    pieces, position = [], 0
    for found in _PLACEHOLDER.finditer(expected):
        pieces.append(re.escape(expected[position : found.start()]))
        bare = found[0][1:-1]
        if bare in known:
            pieces.append(re.escape(known[bare]))
        else:
            pieces.append(_VOLATILE.get(found[0], re.escape(found[0])))
        position = found.end()
    pieces.append(re.escape(expected[position:]))
    return re.compile("".join(pieces), re.DOTALL)
