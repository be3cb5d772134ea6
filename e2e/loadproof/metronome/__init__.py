"""The reference sender: what does a load look like that was offered exactly as asked?

A small, seeded, exactly paced client. It is the honest twin that every check must pass, and with
`--wrong KIND` it is wrong in one known way that the right check must fail.
"""
