"""Campaigns: long attacks on real daemons (docs/trust.md)."""
