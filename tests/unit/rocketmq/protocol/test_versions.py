from __future__ import annotations

import pytest

from penstock.rocketmq.protocol.versions import version_name


@pytest.mark.parametrize(
    ("ordinal", "name"),
    [
        (-1, "V3_0_0_SNAPSHOT"), (0, "V3_0_0_SNAPSHOT"), (15, "V3_0_0_FINAL"),
        (16, "V3_0_1_SNAPSHOT"), (45, "V3_0_15"), (46, "V3_1_0_SNAPSHOT"), (63, "V3_1_8"),
        (85, "V3_2_9"), (86, "V3_3_1_SNAPSHOT"), (211, "V3_9_9"), (212, "V4_0_0_SNAPSHOT"),
        (253, "V4_2_0"), (317, "V4_5_2"), (407, "V4_9_7"), (409, "V4_9_8"), (413, "V5_0_0"),
        (479, "V5_3_3"), (611, "V5_9_9"), (612, "HIGHER_VERSION"), (9999, "HIGHER_VERSION"),
    ],
)  # fmt: skip
def test_the_names_of_upstreams_list(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name
