"""Commands as files of deploy/ have them, read by the options of our programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from penstock.admin.admin_options import AdminOptions
from penstock.core.settings.options import Options, load
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqlookupd.lookupd_options import LookupdOptions

OPTIONS: Final[dict[str, type[Options]]] = {
    "nsqd": NsqdOptions,
    "nsqlookupd": LookupdOptions,
    "nsqadmin": AdminOptions,
}


def options_of(words: Sequence[str]) -> Any:
    """The options that a program takes from its command; SystemExit if it would refuse it."""
    return load(OPTIONS[words[0]], words[1:], words[0])


def has_registry(image: str) -> bool:
    """Whether the name of an image begins with a host."""
    return bool(re.match(r"[^/]*[.:][^/]*/|localhost/", image))
