"""Releases: what is built, what it needs and may be used under, and installs of it."""
