"""The former place of `rspo.adapters.trl_reward`, for programs that import it from here."""

from rspo.adapters.trl_reward import accuracy_reward as accuracy_reward
