"""Messages that wait for a time, a delay level or one that they name; and their release."""
