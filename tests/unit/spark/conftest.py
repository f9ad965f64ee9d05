"""Nothing here starts a JVM; the Spark extra must be installed all the same."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
