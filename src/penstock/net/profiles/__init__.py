"""Profiles of the running process, in the format of pprof."""
