"""The broker's tables, statistics and the files that keep them."""
