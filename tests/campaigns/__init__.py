"""Campaigns: long attacks on real daemons, each with a short form among the tests (docs/trust.md)."""
