"""Why a passage was missed, and what would have rescued it."""
