"""Every decoder under fuzzing."""
