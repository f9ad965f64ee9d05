"""Options of programs: flags, TOML, properties."""
