"""The broker in neither dialect: topics, channels, groups. Bytes and time are handed in."""
