"""Numbers and lengths of the stories that the simulation tries."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_BASE = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    print_blob=True,
)
_PROFILES = {
    # To make a story shorter takes minutes, which CI does not have; a story takes 35 ms.
    "ci": settings(
        _BASE,
        max_examples=250,
        stateful_step_count=50,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    ),
    "nightly": settings(_BASE, max_examples=20_000, stateful_step_count=100),
}


def profile() -> settings:
    """The profile that PENSTOCK_SIM names; `ci` by default."""
    return _PROFILES[os.environ.get("PENSTOCK_SIM", "ci")]
