"""The TCP side of nsqd: connections, sessions, AUTH, upgrades, output buffering."""
