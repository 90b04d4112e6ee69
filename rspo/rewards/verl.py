"""The former place of `rspo.adapters.verl_reward`, for configs that name it here."""

from rspo.adapters.verl_reward import compute_score as compute_score
