"""Checkpoints of one framework in the layout of another, verified by the actions that come out.

`python -m vla_convert REQUEST REPORT` converts as the JSON file REQUEST says and writes JSON file REPORT; the command line
(`vla convert`) writes the first and reads the second.
"""
