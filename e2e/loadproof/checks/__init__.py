"""(case, load) -> findings: one module per question, asked in the order of the literal table in `every`."""
