"""The same bytes for two readers that share no code: the core's, and those of the tests, written from descriptions."""
