"""The verifier `xverify`: the judge model xVerify (arXiv 2504.10481).

A judge is a language model that gets a question, a response and the answer, and replies "correct"
or "incorrect".

download   downloads the model, and its authors' prompt at a pinned commit
server     starts vLLM servers, which stop together with the process that uses them
judge      sends concurrent requests, retries them, and keeps the verdicts on disk
"""
