"""Console entry points, one file each."""
