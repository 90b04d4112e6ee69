"""The verifier `xverify`: the judge model xVerify (arXiv 2504.10481).

prompt   downloads the authors' prompt at a pinned commit
model    downloads the model
server   starts vLLM servers and stops them together with the process that uses them
client   sends concurrent requests, retries them, and parses the replies
store    keeps verdicts on disk, so that no request is repeated
judge    combines these
"""

from rspo.rewards.xverify.judge import XVerify

__all__ = ["XVerify"]
