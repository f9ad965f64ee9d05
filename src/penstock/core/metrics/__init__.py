"""Every metric that a program has for Prometheus, declared once, and their text form."""
