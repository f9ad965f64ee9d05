"""Flags of all programs: their help, completion, and complaints about wrong ones."""
