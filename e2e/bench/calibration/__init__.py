"""The parts of `calibrate`: what a packet capture says of each request, and how far our own stamps are from it."""
