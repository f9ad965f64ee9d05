"""``penstock doctor``: faults of a data path, a configuration or a cluster, and what helps."""
