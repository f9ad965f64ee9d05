"""Verdicts: what an operator should look at, by one rule for both dialects."""
