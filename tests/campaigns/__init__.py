"""Campaigns: long attacks on real daemons, each with a short form here (docs/trust.md)."""
