"""One kill of one process of a real run, and what is left of it. For `bench/kills.py`."""
