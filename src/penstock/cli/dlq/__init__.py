"""``penstock dlq``: list, show, resend and export dead letters."""
