"""Somebody else's servers, which we only run: they answer with times that we asked for, and keep no journal."""
