"""Verdicts to text. Renderers compute nothing."""
