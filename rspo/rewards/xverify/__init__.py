"""The judge model xVerify (arXiv 2504.10481): question, response and answer in, a verdict out.

prompt   upstream's prompt, from a pinned checkout that the user's machine fetches
server   a vLLM server that lives as long as the process that needs it
client   concurrent requests, retries, and what counts as a verdict
store    verdicts on disk, so that none is asked for twice
judge    these together
"""

from rspo.rewards.xverify.judge import XVerify

__all__ = ["XVerify"]
