"""The list of metrics as a page, alert rules and a dashboard."""
