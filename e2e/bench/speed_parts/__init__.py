"""The parts of `bench/speed.py`: what is run, how it is measured, and how it is shown."""
