"""What the tools of administrators ask for and change."""
