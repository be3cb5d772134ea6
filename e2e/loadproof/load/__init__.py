"""Journal -> measured load. Pure functions of the journal; nothing here knows what was expected."""
