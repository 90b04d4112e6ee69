"""The engine `verl`: the same training over Ray, FSDP and vLLM, as a plugin of stock verl.

interface.py    which verl this is written for; one clear error for any other
plugin.py       what `import verl` loads: every objective as an advantage estimator
estimators.py   what such an estimator computes

Importing this package imports nothing of verl.
"""
