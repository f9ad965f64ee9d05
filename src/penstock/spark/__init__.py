"""The Spark side: a source that reads the log by offset, a sink, pipelines, and a ready session.

Spark workers import this package, so it stays light: nothing here imports pyspark or pyarrow until
it is used. It speaks to the brokers over HTTP only.
"""
