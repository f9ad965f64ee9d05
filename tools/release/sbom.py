"""A release's list of components in CycloneDX's form: ``python -m tools.release.sbom FILE``.

It names Penstock and all that its extras for users bring, in the versions that its tests ran with,
with licences and with what needs what. The tool writes the list of an environment, so it is shown
one that has the metadata of these packages and no more.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from importlib.metadata import Distribution
from pathlib import Path

from penstock import __version__
from tools.harness.environments import site_packages

from .built import project
from .locked import USERS, closure


def write(target: Path) -> None:
    """Write the list of what is installed here, checked against CycloneDX's schema."""
    with tempfile.TemporaryDirectory(prefix="penstock-sbom-") as folder:
        venv.create(folder, symlinks=True)
        for package in closure(*USERS).values():
            about = _metadata_of(package)
            (site_packages(Path(folder)) / about.name).symlink_to(about)
        itself = Path(folder, "pyproject.toml")
        itself.write_text(_about())
        subprocess.run(
            [
                sys.executable, "-m", "cyclonedx_py", "environment", "--validate",
                "--output-reproducible", "--spec-version=1.6", "--mc-type=application",
                f"--pyproject={itself}", f"--output-file={target}", f"{folder}/bin/python",
            ],
            check=True,
        )  # fmt: skip


def _about() -> str:
    """Penstock as the tool reads it: with its version, and with what its extras for users need."""
    found = project()
    extras = [each for extra in USERS for each in found["optional-dependencies"][extra]]
    return (
        f'[project]\nname = "{found["name"]}"\nversion = "{__version__}"\n'
        f'description = "{found["description"]}"\nlicense = "{found["license"]}"\n'
        f"dependencies = {found['dependencies'] + extras}\n"
    )


def _metadata_of(package: Distribution) -> Path:
    (file,) = (each for each in package.files or () if each.name == "METADATA")
    return Path(str(package.locate_file(file))).parent


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve())
