"""Metrics as operators use them: reference, alert rules and dashboard, and a real Prometheus."""
