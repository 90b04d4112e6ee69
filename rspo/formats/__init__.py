"""Reads and writes files of responses from any software.

`rows` reads the rows of a file. `layouts` has a module for each tool whose rows are recognised, and
`source` finds the layout of a file and the paths at which its rows have what. `responses` then
reads what a verifier needs, and `verdicts` what Pass@k needs; `verdicts` also writes what `rspo
verify` prints, and `scores` reads the tables of `rspo score`. `paths` reaches into nested values.
"""
