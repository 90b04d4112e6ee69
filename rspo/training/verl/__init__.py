"""The engine `verl`: the same training over Ray, FSDP and vLLM, as a plug-in of unmodified verl.

interface.py       the supported version of verl; one clear error for any other
entry_point.py     loaded by `import verl`: registers every objective as an advantage estimator
advantages.py      the estimators

run.py             trains one cell: starts and supervises the driver, collects the outputs
verl_config.py     a cell -> verl's full config; cpu.yaml, cuda.yaml: settings of the device
driver.py          the process that trains; exits when a process that it needs has died
ray_cluster.py     Ray over the nodes of a job
task.py            sets up verl's trainer, queue and agent loops in the driver
checkpoints.py     the layout of the checkpoint folder
trainer.py         verl's trainer with this project's step
batches.py         reads and writes verl's queue of responses
scoring.py         rewards and weights of a batch
held_out.py        responses to held-out problems
dropping.py        the responses of a mini-batch that its update needs
prompt_dataset.py  the prompts in their order, and the agent loop that requests responses
worker.py          verl's actor on one rank; optimizer.py: its settings
disk.py            disk usage of a cell
cpu_*.py           the CPU as a platform of verl, with a rollout server

`rspo/config/verl_fingerprint.py` lists the settings of verl that do not change the policy.
Importing this package does not import verl.
"""
