"""The targets of `rust/fuzz`, each for its share of the time; with coverage where the machine can."""
