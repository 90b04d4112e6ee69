"""Reads and writes files of responses from any software. Each layout of rows has a module.

`rspo verify` reads `responses` and writes `verdicts`; `rspo compare` reads `verdicts` and `scores`.
`rows` reads the rows of all layouts from JSON lines, CSV or Parquet. `verified_response` checks the
values that `verdicts` and `scores` have in common.
"""
