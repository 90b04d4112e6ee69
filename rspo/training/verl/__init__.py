"""The engine `verl`: Algorithm 1 over Ray, FSDP and vLLM, as a plug-in of unmodified verl.

run.py            trains one cell: starts and supervises the driver, collects the outputs
driver.py         the process that trains, over Ray (ray_cluster.py), with trainer.py
trainer.py        verl's trainer with the training step of this package
interface.py      the supported version of verl; one clear error for any other

`rspo/pipeline/verl_fingerprint.py` lists the settings of verl that do not change the policy.
Importing this package does not import verl.
"""
