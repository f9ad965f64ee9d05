"""Found by Spark itself: importing this registers ``format("nsq")``.

Spark imports every top-level module called ``pyspark_*`` when it first looks for a Python data
source, and registers its ``DefaultSource``.
"""

from penstock.spark.formats.nsq import NsqDataSource as DefaultSource

__all__ = ["DefaultSource"]
