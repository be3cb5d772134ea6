"""The parts of `judging.py`: a made run, and what is done with it in a process of its own."""
