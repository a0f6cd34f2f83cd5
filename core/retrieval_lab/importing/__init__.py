"""Test collections in other formats, read with all their faults, and made into a corpus folder."""
