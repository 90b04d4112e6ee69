"""The former place of `rspo.adapters.trl_reward`."""

from rspo.adapters.trl_reward import accuracy_reward as accuracy_reward
