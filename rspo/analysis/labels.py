"""The labels of objectives in figures and pages."""

from rspo.objectives import OBJECTIVES

# Any other objective is labelled with its name.
_LABELS = {
    "policy_gradient": "PG",
    "grpo": "GRPO",
    "rspo_pass_at_k": "RSPO",
    "rspo_max_at_k": "RSPO",
    "hitchhiking": "Baseline",
    "rspo_pass_at_k_plug_in": "RSPO plug-in",
    "rspo_max_at_k_plug_in": "RSPO Max@k plug-in",
    "pkpo_s": "PKPO $s$",
    "pkpo_s_loo": "PKPO $s^{(loo)}$",
    "maxpo": "MaxPO",
    "ordergrad_top_half": "OrderGrad top half",
    "ordergrad_median": "OrderGrad median",
    "ordergrad_bottom_half": "OrderGrad bottom half",
    "passk_training": "Pass@k Training",
    "grpo_passk": "GRPO Pass@k (verl)",
    "tailrl": "TailRL",
    "tailrl_centred": "TailRL, centred",
    "maxrl": "MaxRL",
    "maxrl_uncentred": "MaxRL, not centred",
    "rs_grpo": "RS-GRPO",
    "ttt_entropic": "TTT-Discover",
    "w_reinforce": "W-REINFORCE",
}
# Used by figures that show both of these objectives.
FULL_LABELS = {"rspo_pass_at_k": "RSPO Pass@k", "rspo_max_at_k": "RSPO Max@k"}


def label_of(objective: str, k: int | None = None, full: bool = False) -> str:
    """The label of an objective in legends, followed by k if it is given and the objective has one.

    Args:
        full: distinguish RSPO for Pass@k from RSPO for Max@k.
    """
    name = _LABELS.get(objective, objective.replace("_", " "))
    name = FULL_LABELS.get(objective, name) if full else name
    return f"{name} k={k}" if k is not None and OBJECTIVES[objective].has_k else name
