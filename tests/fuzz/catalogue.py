"""All targets by name; run as a program it prints the names."""

from __future__ import annotations

from tests.fuzz.targets import Target, commands, http, layers, peers, settings, storage

TARGETS: dict[str, Target] = {
    **commands.TARGETS,
    **http.TARGETS,
    **storage.TARGETS,
    **peers.TARGETS,
    **layers.TARGETS,
    **settings.TARGETS,
}

if __name__ == "__main__":
    print(*TARGETS)
