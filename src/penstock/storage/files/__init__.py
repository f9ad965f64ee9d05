"""Files: the one door to the disk, space, temporary names, staged parts."""
