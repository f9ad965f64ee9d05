"""Loads on daemons which may die at any moment, and what must be true afterwards."""
