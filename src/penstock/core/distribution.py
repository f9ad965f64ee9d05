"""The name of the distribution, which is not the package's, and the command that installs it.

The name ``penstock`` belongs to another project on the package index.
"""

from __future__ import annotations

from typing import Final

DISTRIBUTION: Final = "penstock-mq"
"""The name that pip knows; what is imported and the programs are called ``penstock``."""


def pip_install(*extras: str) -> str:
    """The command that adds these extras to an install, for errors.

    pip keeps the version that is there, be it of a wheel or a clone, and adds what it lacks.
    """
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"
