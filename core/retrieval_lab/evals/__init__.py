"""The evaluation lab: measures over labelled queries, each with its uncertainty, and comparisons of configurations."""
