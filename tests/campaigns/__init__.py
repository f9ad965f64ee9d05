"""The short form of each campaign."""
