"""Metrics as operators use them: their page, alert rules and dashboard in a real Prometheus."""
