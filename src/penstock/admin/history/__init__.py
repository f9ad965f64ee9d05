"""The last hour of a cluster, sampled and kept in memory, for charts without graphite."""
