"""Why a passage was missed: its way through every stage, what stands above it, how full-text search read the words."""
