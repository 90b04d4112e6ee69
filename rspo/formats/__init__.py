"""Files of responses from any software, a module per layout of their rows.

`rspo verify` reads `responses` and writes `verdicts`; `rspo compare` reads `verdicts` and `scores`.
`rows` reads the rows of all of them from JSON lines, CSV or Parquet.
"""
