"""The parts of `error_rates.py`: statistics without floors, whole honest runs, wrong kinds with a dial."""
