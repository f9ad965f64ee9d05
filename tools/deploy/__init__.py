"""The images of deploy/, followed step by step, and the manifests of its chart."""
