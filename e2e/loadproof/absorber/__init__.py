"""The absorber: our recording OpenAI-compatible server, a process of its own."""
