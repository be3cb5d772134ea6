"""(case, load) -> findings: one module per question, asked in the order of this literal table."""
