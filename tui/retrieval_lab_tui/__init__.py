"""The explorer: the lab in a terminal."""
