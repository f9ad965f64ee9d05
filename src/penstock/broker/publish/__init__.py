"""Publishing: records, staged batches, writers, bounds."""
