"""The retrievers: each in a module of its own, named in `registry`."""
