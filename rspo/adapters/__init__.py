"""Connects this package to other trainers.

`trl` has TRL's GRPOTrainer with the objectives, and `verl_estimators` registers them in verl.
`verl_advantages` has the advantages themselves, which the engine in rspo/training/verl/ uses, too.
`trl_reward` and `verl_reward` have the reward functions of TRL and verl.
"""
