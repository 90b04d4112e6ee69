"""Connects this package to other trainers.

`trl` has TRL's GRPOTrainer with the objectives. `trl_reward` and `verl_reward` have the reward
functions of TRL and verl. The objectives register themselves in verl (rspo/training/verl/).
"""
