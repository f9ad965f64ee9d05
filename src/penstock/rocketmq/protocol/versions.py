"""Names of RocketMQ's versions: peers send ordinals of upstream's list, tools print its names."""

from __future__ import annotations

from typing import Final

_FIRST: Final = (
    "V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2", "V3_0_0_BETA3",
    "V3_0_0_BETA4", "V3_0_0_BETA5", "V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6",
    "V3_0_0_BETA7_SNAPSHOT", "V3_0_0_BETA7", "V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8",
    "V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL",
)  # fmt: skip

# The parts of the list that follow, each release twice: its snapshot and itself. By first version:
# the ordinal, the least of the last numbers, and how many there are of each pair of first numbers.
_SINCE: Final = (
    (4, 0, 212, 0, 10),
    (3, 3, 86, 1, 9),
    (3, 1, 46, 0, 10),
    (3, 0, 16, 1, 15),
)
_HIGHER: Final = 612


def version_name(ordinal: int) -> str:
    """The name of a version, such as V4_9_8; ``HIGHER_VERSION`` behind the end of the list."""
    if ordinal >= _HIGHER:
        return "HIGHER_VERSION"
    for major, minor, start, least, count in _SINCE:
        if ordinal >= start:
            release, is_final = divmod(ordinal - start, 2)
            pairs, last = divmod(release, count)
            more, minor = divmod(minor + pairs, 10)
            return f"V{major + more}_{minor}_{last + least}{'' if is_final else '_SNAPSHOT'}"
    return _FIRST[max(0, ordinal)]
