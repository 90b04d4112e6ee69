"""The verifier `xverify`: the judge model xVerify (arXiv 2504.10481).

A judge is a language model that gets a question, a response and the answer, and replies "correct"
or "incorrect".

download   downloads the prompt of its authors at a pinned commit, and the model
server     starts vLLM servers and stops them together with the process that uses them
judge      sends concurrent requests, retries them, and keeps the verdicts on disk
"""
