"""What tools/release builds, and examines."""
