"""Backups of a data path, taken while its node runs, and putting them back."""
