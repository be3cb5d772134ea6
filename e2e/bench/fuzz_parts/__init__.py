"""The parts of `fuzz.py`."""
