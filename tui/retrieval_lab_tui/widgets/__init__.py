"""The parts of the explorer's screen, one module each."""
