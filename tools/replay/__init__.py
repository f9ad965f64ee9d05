"""Recorded exchanges of other programs, played against ours, and what records them."""
