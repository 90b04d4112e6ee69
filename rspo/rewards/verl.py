"""The former place of `rspo.adapters.verl_reward`."""

from rspo.adapters.verl_reward import compute_score as compute_score
