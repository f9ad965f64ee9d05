"""Found by Spark itself: importing this registers ``format("rocketmq")``.

See ``pyspark_nsq``; a module has one source.
"""

from penstock.spark.formats.rocketmq import RocketmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
