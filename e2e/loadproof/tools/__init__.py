"""Which tools are known, how is each of them called, and what does each say of itself?"""
