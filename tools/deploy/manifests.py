"""The Kubernetes manifests, which Helm makes of the chart: ``python -m tools.deploy.manifests``.

Helm is not needed to test them: the first line has a digest of the chart that they were made of.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
CHART: Final = ROOT / "deploy" / "helm" / "penstock"
EVERYTHING: Final = ROOT / "tests" / "fixtures" / "helm"
"""What tests look at for each value that is empty by default."""
MANIFESTS: Final = {
    ROOT / "deploy" / "kubernetes" / "penstock.yaml": (),
    ROOT / "deploy" / "kubernetes" / "penstock-rocketmq.yaml": ("--set=rocketmq.enabled=true",),
    ROOT / "deploy" / "kubernetes" / "penstock-tls.yaml": (
        "--set=nsqd.tls.secret=nsqd-tls",
        "--set=nsqd.tls.required=true",
    ),
    EVERYTHING / "everything.yaml": (f"--values={EVERYTHING / 'values.yaml'}",),
}
"""The files, each with what differs from the chart's values."""
KUBERNETES: Final = "1.31"


def first_line(chart: Path = CHART) -> str:
    """A comment with the digest of all files of the chart."""
    digest = hashlib.sha256()
    for path in sorted(path for path in chart.rglob("*") if path.is_file()):
        name = path.relative_to(chart).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"# Made by `make pages` of the chart with digest {digest.hexdigest()}\n"


def set_version(root: Path, version: str) -> None:
    """Write a version into the chart, and into what was made of it, in a copy of the source."""
    chart = root / CHART.relative_to(ROOT)
    file = chart / "Chart.yaml"
    (before,) = re.findall(r'^appVersion: "(.*)"$', file.read_text(), re.MULTILINE)
    new = re.sub(r"^version: .*$", f"version: {version}", file.read_text(), flags=re.MULTILINE)
    file.write_text(new.replace(f'appVersion: "{before}"', f'appVersion: "{version}"'))
    for path in (root / each.relative_to(ROOT) for each in MANIFESTS):
        _, text = path.read_text().split("\n", 1)
        for form in ('/version: "{}"\n', '"penstock:{}"\n'):
            text = text.replace(form.format(before), form.format(version))
        path.write_text(first_line(chart) + text)


def main() -> None:
    words = ["helm", "template", "penstock", str(CHART), f"--kube-version={KUBERNETES}"]
    for path, values in MANIFESTS.items():
        made = subprocess.run(
            [*words, *values], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        path.write_text(first_line() + made.replace("managed-by: Helm", "managed-by: kubectl"))


if __name__ == "__main__":
    main()
