"""What nsqadmin's HTML says of itself (NSQ spec 5.6), Go's and ours: the same in other words."""

from __future__ import annotations

import json
import re
from typing import Any

_VARIABLE = re.compile(r"var (\w+) =\s*(.*?)\s*;")
_SETTINGS = re.compile(r'<script type="application/json" id="settings">(.*?)</script>')


def page_settings(page: str) -> dict[str, Any]:
    """The settings by Go's names. Of a page without any: none."""
    ours = _SETTINGS.search(page)
    if ours is None:
        return {name: _value(text) for name, text in _VARIABLE.findall(page)}
    told = json.loads(ours[1])
    graphite = told["graphite"]
    return {
        "USER_AGENT": f"nsqadmin/v{told['version']}",
        "VERSION": told["version"],
        "GRAPHITE_URL": graphite["url"] if graphite["enabled"] else "",
        "GRAPH_ENABLED": graphite["enabled"],
        "STATSD_COUNTER_FORMAT": graphite["counterFormat"],
        "STATSD_GAUGE_FORMAT": graphite["gaugeFormat"],
        "STATSD_INTERVAL": graphite["interval"],
        "STATSD_PREFIX": graphite["prefix"],
        "NSQLOOKUPD": told["lookupds"],
        "IS_ADMIN": told["isAdmin"],
        "BASE_PATH": told["basePath"],
    }


def page_problem(expected: str, page: str) -> str:
    """What a page says otherwise than the recorded one, or part of one; empty: nothing."""
    found = page_settings(page)
    wanted = page_settings(expected)
    assert wanted, f"a page that says nothing was recorded: {expected!r}"
    wrong = [name for name in wanted if found.get(name) != wanted[name]]
    return "".join(f"{name} is {found.get(name)!r}, not {wanted[name]!r}; " for name in wrong)


def _value(script: str) -> Any:
    """The value of a script's literal."""
    return json.loads(script.replace("'", '"').replace(",]", "]"))
