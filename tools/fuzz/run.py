"""Runs one target under atheris (coverage-guided) for some seconds: `make fuzz` does so for all.

    python -m tools.fuzz.run http_requests 60

A failure ends it with the traceback, an exit code that is not 0, and the input in
build/fuzz/<target>/crash-…, which `python -m tools.fuzz.run <target> <file>` runs again. What it
learnt stays in the corpus beside it, for the next run.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["penstock"]):
    from .catalogue import TARGETS

FOUND = Path("build") / "fuzz"
INPUT_BYTES_MAX = 8192


def main() -> None:
    """The command: a target's name, then seconds or a file with one input."""
    if len(sys.argv) != 3 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m tools.fuzz.run TARGET SECONDS|FILE\n{chr(10).join(TARGETS)}")
    name, wanted = sys.argv[1:]
    target = TARGETS[name]
    logging.disable()
    if not wanted.isdigit():
        target.run(Path(wanted).read_bytes())
        return
    folder = FOUND / name
    seeds, corpus, words = folder / "seeds", folder / "corpus", folder / "words"
    for each in (seeds, corpus):
        each.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (seeds / str(number)).write_bytes(seed)
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words if word))
    options = [
        f"-max_total_time={wanted}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-artifact_prefix={folder}/",
        f"-dict={words}",
        "-rss_limit_mb=1024",
        "-timeout=20",
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus), str(seeds)], target.run)
    atheris.Fuzz()  # ends the process


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
