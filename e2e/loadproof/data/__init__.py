"""Which files travel with the package, and how was each made?

`google_gemma-3-270m.tar.gz` by `make_tokenizer_tarball`, `words.txt` by `make_words`. The two makers are run
by hand when a file has to change; nothing imports them at run time.
"""
