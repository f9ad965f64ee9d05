"""Traces of publishes and deliveries, for OpenTelemetry (``--trace-messages``)."""
