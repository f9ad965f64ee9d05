"""``penstock pipeline``: run, test, look at and ship pipelines."""
