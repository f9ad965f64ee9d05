"""TLS and other layers between a socket and a protocol."""
