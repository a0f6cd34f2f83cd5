"""Speed as ratios: each figure is measured against a bare operation or a peer in the same run. See `make bench`."""
