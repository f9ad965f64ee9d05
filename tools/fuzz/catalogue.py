"""All targets by name; run as a program it prints the names."""

from __future__ import annotations

from tools.fuzz.targets import (
    access_rules,
    admin,
    commands,
    forwarding,
    http,
    lane,
    latencies,
    layers,
    letters,
    peers,
    popping,
    replication,
    rocketmq,
    rocketmq_client,
    settings,
    spark,
    staging,
    storage,
    takeover,
)

from .targets import Target

TARGETS: dict[str, Target] = {
    **commands.TARGETS,
    **lane.TARGETS,
    **http.TARGETS,
    **storage.TARGETS,
    **peers.TARGETS,
    **layers.TARGETS,
    **settings.TARGETS,
    **letters.TARGETS,
    **staging.TARGETS,
    **latencies.TARGETS,
    **takeover.TARGETS,
    **rocketmq.TARGETS,
    **rocketmq_client.TARGETS,
    **spark.TARGETS,
    **popping.TARGETS,
    **replication.TARGETS,
    **access_rules.TARGETS,
    **forwarding.TARGETS,
    **admin.TARGETS,
}

if __name__ == "__main__":
    print(*TARGETS)
