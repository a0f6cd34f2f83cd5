"""Many configurations over one golden set: a grid, its cells, where they are kept, and the work that makes them."""
