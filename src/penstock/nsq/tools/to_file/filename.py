"""The names of a topic's files: tokens, date and time, revisions."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

REVISION: Final = "<REV>"

_DIRECTIVE: Final = re.compile("%[BbmAadHIMSYypZz%]")


def strftime(layout: str, when: datetime) -> str:
    """``when`` in a layout of ``%B %b %m %A %a %d %H %I %M %S %Y %y %p %Z %z %%``.

    All else stands for itself, unlike in Go's program, which reads digits and words as layouts too.
    """
    return _DIRECTIVE.sub(lambda directive: when.strftime(directive[0]), layout)


def with_revision(name: str, revision: int) -> str:
    """The name with its revision in the token's place."""
    return name.replace(REVISION, f"-{revision:06d}")


def host_name(identifier: str, hostname: str) -> str:
    """The text for ``<HOST>``: the short host name, or the identifier with its tokens replaced."""
    short = hostname.partition(".")[0]
    if not identifier:
        return short
    return identifier.replace("<SHORT_HOST>", short).replace("<HOSTNAME>", hostname)


class Filenames:
    """The names that one topic's files have as time goes on. They end in ``suffix``."""

    def __init__(
        self, layout: str, datetime_layout: str, *, topic: str, host: str, pid: int, suffix: str
    ) -> None:
        if topic in (".", ".."):  # topics may be called so: no way out of the output's folder
            topic = topic.replace(".", "%2E")
        layout = layout.replace("<TOPIC>", topic).replace("<HOST>", host)
        layout = layout.replace("<PID>", str(pid))
        self._layout = layout if layout.endswith(suffix) else layout + suffix
        self._datetime_layout = datetime_layout
        self._second = -1
        self._name = ""

    def at(self, second: int) -> str:
        """The name in this second since 1970, in local time; the revision is left to be set."""
        if second != self._second:
            when = datetime.fromtimestamp(second).astimezone()
            self._name = self._layout.replace("<DATETIME>", strftime(self._datetime_layout, when))
            self._second = second
        return self._name
