"""The Spark side: a data source that reads the log by offset, pipelines, and a ready session.

Spark workers import this package, so it stays light: nothing here imports pyspark or pyarrow until
it is used. It speaks to the brokers over their HTTP log endpoints only.
"""
