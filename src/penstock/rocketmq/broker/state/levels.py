"""Delay levels: ``1s 5s 10s …`` as numbers 1, 2, 3 … of a message's DELAY property.

See RocketMQ spec 4.6.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.core.errors import ConfigError
from penstock.core.units import HOUR, MINUTE, SECOND

DEFAULT: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
RETRY_BASE: Final = 3
"""The level of a first retry; each further one is a level higher."""

_WORD = re.compile(r"(\d{1,9})([smhd])")
_UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": 24 * HOUR}


class DelayLevels:
    """The delays of a broker, in ns; level 0 means no delay."""

    def __init__(self, text: str = DEFAULT) -> None:
        """From the property ``messageDelayLevel``. Raises ConfigError."""
        self._delays = [0]
        for word in text.split():
            found = _WORD.fullmatch(word)
            if found is None:
                raise ConfigError(f"messageDelayLevel holds {word!r}, where 10s or 2h is expected")
            self._delays.append(int(found[1]) * _UNITS[found[2]])
        if not self.highest:
            raise ConfigError(
                "messageDelayLevel holds no level; one is needed, such as 10s, for "
                "messages that come again"
            )

    @property
    def highest(self) -> int:
        return len(self._delays) - 1

    def clip(self, level: int) -> int:
        """The level itself, or the nearest that there is."""
        return max(0, min(level, self.highest))

    def delay_ns(self, level: int) -> int:
        """The delay of a level, clipped to what there is."""
        return self._delays[self.clip(level)]
