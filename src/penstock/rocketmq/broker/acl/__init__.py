"""Access rules: who may do what, and the check that each request passes."""
