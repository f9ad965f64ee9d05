"""Branch coverage, by their own tests, of the floors that must lose nothing (`make coverage`).

A function that these tests do not cover wholly is an error, unless tools/coverage.toml gives the
reason; so is a reason whose function is covered by now.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = "src/penstock/"
FLOORS: Final = ("storage", "broker", "node", "nsq/protocol", "rocketmq/protocol")
REASONS: Final = Path(__file__).with_suffix(".toml")


class Gap(NamedTuple):
    """The lines and branches of a function that no test takes."""

    function: str
    lines: tuple[int, ...]
    branches: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        places = [*map(str, self.lines), *(f"{here}->{there}" for here, there in self.branches)]
        return f"{self.function}: {', '.join(places)}"


def gaps(report: dict[str, Any]) -> Iterator[Gap]:
    """The gaps in a report of coverage.py's, by ``file:function``."""
    for path, file in report["files"].items():
        for name, found in file["functions"].items():
            lines = tuple(found["missing_lines"])
            branches = tuple(
                (here, there) for here, there in found["missing_branches"] if here not in lines
            )
            if lines or branches:
                function = f"{path.removeprefix(SOURCE)}:{name or 'module'}"
                yield Gap(function, lines, branches)


def faults(found: list[Gap], reasons: dict[str, str]) -> list[str]:
    """The gaps without a reason, and the reasons without a gap."""
    uncovered = {gap.function for gap in found}
    return [
        *(f"not covered: {gap}" for gap in found if gap.function not in reasons),
        *(f"covered by now: {each}" for each in reasons if each not in uncovered),
    ]


def own_tests() -> list[str]:
    """The folders of the floors' tests."""
    folders = [f"tests/{kind}/{floor}" for kind in ("unit", "programs") for floor in FLOORS]
    return [folder for folder in folders if (ROOT / folder).is_dir()]


def measured() -> dict[str, Any]:
    """The report of a run of the floors' tests; ends this program if one of them fails."""
    source = ",".join(f"{SOURCE}{floor}" for floor in FLOORS)
    with tempfile.TemporaryDirectory() as temporary:
        data, report = f"--data-file={temporary}/data", Path(temporary, "report.json")
        run = ["run", "--branch", f"--source={source}", data, "-m", "pytest", "-q", *own_tests()]
        for arguments in (run, ["json", "--quiet", data, "-o", str(report)]):
            ended = subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT)
            if ended.returncode:
                sys.exit(ended.returncode)
        found: dict[str, Any] = json.loads(report.read_bytes())
    return found


def main() -> None:
    """Measure; print the share that is covered, and what is at fault.

    ``--left-out`` prints pytest's options for a run beside it that leaves these tests out.
    """
    if "--left-out" in sys.argv[1:]:
        print(*(f"--ignore={folder}" for folder in own_tests()))
        return
    report = measured()
    print(f"{report['totals']['percent_covered']:.2f} % of lines and branches are covered")
    found = faults(list(gaps(report)), tomllib.loads(REASONS.read_text(encoding="utf-8")))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
