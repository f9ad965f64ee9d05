"""Known vulnerabilities of the packages in constraints.txt: ``python -m tools.release.audit``.

pip-audit asks the Python Package Index. Where that cannot be asked, nothing is known, which is said
and is not the same as nothing found: exit code 0 for nothing found, 1 for a vulnerability, 3 for no
answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any, Final

from penstock.core.counted import counted

from .locked import pinned

NO_ANSWER: Final = 3


def verdict(out: str, err: str) -> tuple[int, str]:
    """The exit code and the text for what pip-audit said."""
    try:
        packages: list[dict[str, Any]] = json.loads(out)["dependencies"]
    except ValueError:
        return NO_ANSWER, f"no advisories could be read, so nothing is known: {_last(err)}"
    vulnerable = [each for each in packages if each.get("vulns")]
    unasked = [each["skip_reason"] for each in packages if "skip_reason" in each]
    lines = [_line(each, known) for each in vulnerable for known in each["vulns"]]
    lines.append(f"{counted(len(vulnerable), 'vulnerable package')} of {len(packages)}")
    if unasked:
        lines.append(f"of {counted(len(unasked), 'package')} nothing is known: {unasked[0]}")
    return 1 if vulnerable else NO_ANSWER if unasked else 0, "\n".join(lines)


def _line(package: dict[str, Any], known: dict[str, Any]) -> str:
    mended = ", ".join(known["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {known['id']}, mended in {mended}"


def ask(packages: dict[str, str]) -> tuple[int, str]:
    """The verdict on these versions."""
    with tempfile.NamedTemporaryFile("w", prefix="penstock-audit-", suffix=".txt") as pins:
        pins.writelines(f"{name}=={version}\n" for name, version in packages.items())
        pins.flush()
        words = ["--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", "--requirement", pins.name, *words],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
    return verdict(done.stdout, done.stderr)


def _last(err: str) -> str:
    lines = err.strip().splitlines()
    return lines[-1] if lines else "pip-audit said nothing"


def main() -> int:
    """Ask for one package, and for all where there is an answer."""
    packages = pinned()
    code, text = ask(dict(list(packages.items())[:1]))
    if code != NO_ANSWER:
        code, text = ask(packages)
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
