"""The engine `verl`: the same training over Ray, FSDP and vLLM, as a plugin of stock verl.

interface.py     which verl this is written for; one clear error for any other
plugin.py        what `import verl` loads: every objective as an advantage estimator
estimators.py    what such an estimator computes

run.py           one cell, from its config to its files; outlives whatever dies below
settings.py      a cell -> verl's whole config; cpu.yaml and cuda.yaml: what follows from the device
driver.py        the process that trains, and ends when something that it needs has died
cluster.py       Ray over the nodes of a job
task.py          what verl's driver runs
checkpoints.py   what lies in the folder of checkpoints
trainer.py       verl's trainer with this project's step
batches.py       what is read from and written to verl's queue of responses
scoring.py       rewards and weights of a batch
validation.py    the servers' responses to held-out problems
dropping.py      which responses of a mini-batch cost an update
prompts.py       the prompts in their order, and what asks a server for responses to them
worker.py        verl's actor on one rank; optimizer.py: its settings
disk.py          what a cell takes of it
deciding.py      which settings make another policy, and which only a faster one
cpu_*.py         what verl lacks to run without a GPU

Importing this package imports nothing of verl.
"""
