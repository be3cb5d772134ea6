"""The pytest plugin: what did the session's runs say, in one table at its end?

`loadproof_record(judgement)` notes a run; a test that could not be judged clearly or lacks its tool is counted.
At the end: case, tool, outcome and the host, on the terminal and, as JSON and Markdown, in the folder
named by LOADPROOF_SUMMARY.
"""

from __future__ import annotations
