"""The build's one step of its own: compile ``penstock.lane.compiled`` where a C compiler is.

Without one the wheel is pure Python and all works, and plain publishes take more of a processor.
``PENSTOCK_LANE=off`` in the environment leaves it out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "penstock.lane.compiled"
FLAGS = ("-O2", "-g0")


def compile_lane(root: Path) -> Path:
    """Compile the module in place; the path of what was made.

    Raises OSError or an error of setuptools without a compiler or Python's headers.
    """
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    source = root / "src" / f"{MODULE.replace('.', '/')}.pyx"
    scratch = root / "build" / "lane"
    before = os.getcwd()
    os.chdir(root)  # so that no path of this machine enters the module
    try:
        extension = Extension(
            MODULE,
            [str(source.relative_to(root))],
            extra_compile_args=list(FLAGS),
        )
        modules = cythonize([extension], build_dir=str(scratch.relative_to(root)), quiet=True)
        command = build_ext(Distribution({"ext_modules": modules, "package_dir": {"": "src"}}))
        command.inplace = True
        command.build_temp = str(scratch.relative_to(root))
        command.ensure_finalized()
        command.run()
        return root / command.get_ext_fullpath(MODULE)
    finally:
        os.chdir(before)


class LaneHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling's hook: the module goes into the wheel, or stays beside its source if editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or say why not and go on."""
        if os.environ.get("PENSTOCK_LANE") == "off":
            return
        try:
            made = compile_lane(Path(self.root))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            print(f"penstock.lane is not compiled ({why}); all works without", file=sys.stderr)
            return
        if version != "editable":
            build_data["force_include"][str(made)] = str(made.relative_to(Path(self.root) / "src"))
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
