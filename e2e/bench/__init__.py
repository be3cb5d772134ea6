"""Measurements of our own speed and exactness: they print what they saw and are no part of the package."""
