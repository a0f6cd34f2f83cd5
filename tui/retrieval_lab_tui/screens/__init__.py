"""The explorer's screens, one module each."""
