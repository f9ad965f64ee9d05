"""All targets by name; run as a program it prints the names."""

from __future__ import annotations

from tests.fuzz.targets import (
    Target,
    commands,
    http,
    latencies,
    layers,
    letters,
    peers,
    rocketmq,
    settings,
    storage,
    takeover,
)

TARGETS: dict[str, Target] = {
    **commands.TARGETS,
    **http.TARGETS,
    **storage.TARGETS,
    **peers.TARGETS,
    **layers.TARGETS,
    **settings.TARGETS,
    **letters.TARGETS,
    **latencies.TARGETS,
    **takeover.TARGETS,
    **rocketmq.TARGETS,
}

if __name__ == "__main__":
    print(*TARGETS)
