"""The statements of the page: sentences that follow from the table."""

from collections.abc import Iterable

import pandas as pd

from rspo.config.experiment import BASE
from rspo.evaluation.statistics import LEVEL
from rspo.studies import markdown
from rspo.studies.markdown import points
from rspo.studies.peers.runs import RSPO

SLOWER = 1.25  # ratio of processor seconds that is worth a sentence: they vary by 10 to 20 %


def by_objective(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each objective, those with the highest Pass@k first, k that of RSPO's training.

    An objective with several k or n has several rows.
    """
    rows = table[(table["part"] == "objectives") & (table["against"] == "rspo")]
    k = rows[rows["objective"] == RSPO]["trained_k"].iloc[0]
    at_k = rows[rows["k"] == k] if k in set(rows["k"]) else rows.drop_duplicates("cells")
    return at_k.sort_values("pass_at_k", ascending=False, kind="stable")


def reference(table: pd.DataFrame) -> pd.Series:
    """RSPO's row, at the k that it is trained for."""
    rows = by_objective(table)
    return rows[rows["difference"].isna()].iloc[0]


def better(table: pd.DataFrame) -> list[str]:
    """What RSPO does better than other objectives."""
    lines = [_highest(table)]
    lines += [_above(table, k, sign=-1) for k in _ks(table)]
    lines += [_others_below_base(table), _noise(table, less=True), _time(table, faster=True)]
    return [line for line in lines if line] or ["Nothing is significantly better."]


def not_better(table: pd.DataFrame) -> list[str]:
    """What other objectives do better, and what the data does not tell."""
    lines = [_rank(table), _below_base(table)]
    lines += [_above(table, k, sign=1) for k in _ks(table)]
    lines += [_open(table, k) for k in _ks(table)]
    lines += [_noise(table, less=False), _time(table, faster=False), _entropy(table)]
    return [line for line in lines if line]


def _ks(table: pd.DataFrame) -> list[float]:
    """The evaluated k, the one that RSPO is trained for first."""
    ks, own = sorted(set(table["k"].dropna())), reference(table)["trained_k"]
    return sorted(ks, key=lambda k: (k != own, k))


def _compared(table: pd.DataFrame, k: float) -> pd.DataFrame:
    rows = table[(table["part"] == "objectives") & (table["against"] == "rspo") & (table["k"] == k)]
    return rows[rows["difference"].notna()].sort_values("difference")


def _significant(rows: pd.DataFrame, sign: int) -> pd.DataFrame:
    return rows[(rows["p_adjusted"] < LEVEL) & (sign * rows["difference"] > 0)]


def _above(table: pd.DataFrame, k: float, sign: int) -> str:
    """Objectives that are significantly below RSPO (sign -1), or above it (1)."""
    rows = _compared(table, k)
    found = _significant(rows, sign)
    if found.empty:
        return ""
    trained = ", the k of training" if k == reference(table)["trained_k"] else ""
    which = "above" if sign < 0 else "below"
    others = joined(
        f"{row['name']} ({points(abs(row['difference']), sign=False)})"
        for _, row in found.sort_values("difference", ascending=sign < 0).iterrows()
    )
    return (
        f"Pass@{k:.0f}{trained}: RSPO is significantly {which} {len(found)} of {len(rows)} "
        f"objectives, by the points in brackets: {others}."
    )


def _open(table: pd.DataFrame, k: float) -> str:
    rows = _compared(table, k)
    found = rows[~(rows["p_adjusted"] < LEVEL)]
    if found.empty:
        return ""
    return f"Pass@{k:.0f}: RSPO is not distinguishable from {_all(found, len(rows))}."


def _highest(table: pd.DataFrame) -> str:
    rows, rspo = by_objective(table), reference(table)
    if rows["pass_at_k"].max() > rspo["pass_at_k"]:
        return ""
    value = points(rspo["pass_at_k"], sign=False)
    return f"RSPO has the highest Pass@{rspo['k']:.0f}, {value} %, of {len(rows)} objectives."


def _rank(table: pd.DataFrame) -> str:
    """RSPO's place among all objectives, by the estimates, if it is not the first."""
    rows, rspo = by_objective(table), reference(table)
    rank, best = 1 + int((rows["pass_at_k"] > rspo["pass_at_k"]).sum()), rows.iloc[0]
    if rank == 1:
        return ""
    value, highest = (points(one["pass_at_k"], sign=False) for one in (rspo, best))
    return (
        f"RSPO's Pass@{rspo['k']:.0f}, {value} %, is number {rank} of {len(rows)}; the highest, "
        f"{highest} %, is that of {best['name']}."
    )


def _others_below_base(table: pd.DataFrame) -> str:
    """The objectives that end below the base model, if RSPO does not."""
    rows, rspo = _against_base(table), reference(table)["cells"]
    below = _significant(rows, -1)
    if below.empty or rspo in set(below["cells"]):
        return ""
    others = joined(
        f"{name} ({joined(f'Pass@{k:.0f}' for k in group['k'])})"
        for name, group in below.groupby("name", sort=False)
    )
    return f"Base model: RSPO is not significantly below it at any k. Below it are {others}."


def _below_base(table: pd.DataFrame) -> str:
    rows = _against_base(table)
    below = _significant(rows[rows["cells"] == reference(table)["cells"]], -1)
    if below.empty:
        return ""
    where = joined(
        f"Pass@{row['k']:.0f} ({points(row['difference'])})" for _, row in below.iterrows()
    )
    return f"Base model: RSPO is significantly below it at {where}."


def _against_base(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["part"] == "objectives") & (table["against"] == BASE)]


def _all(found: pd.DataFrame, count: int) -> str:
    """The names of some of `count` other objectives."""
    if len(found) == count > 1:
        return f"any of the {count} other objectives"
    return joined(found["name"])


def _noise(table: pd.DataFrame, less: bool) -> str:
    """Objectives whose gradient is noisier than RSPO's, or less noisy, if intervals do not meet."""
    rows, rspo = by_objective(table), reference(table)
    others = rows[rows["cells"] != rspo["cells"]].sort_values("noise", ascending=not less)
    apart = others["noise_low"] > rspo["noise_high"]
    if not less:
        apart = others["noise_high"] < rspo["noise_low"]
    if not apart.any():
        return ""
    which = "less" if less else "more"
    listed = joined(f"{row['name']} ({row['noise']:.1f})" for _, row in others[apart].iterrows())
    return (
        f"Gradient noise on the base model: RSPO's ({rspo['noise']:.1f}) is {which} than that of "
        f"{listed}; their 95 % intervals do not overlap."
    )


def _time(table: pd.DataFrame, faster: bool) -> str:
    """Objectives that need at least 25 % more processor time than RSPO, or less."""
    rows, rspo = by_objective(table), reference(table)
    ratio = rows["seconds"] / rspo["seconds"]
    found = rows[ratio >= SLOWER] if faster else rows[ratio <= 1 / SLOWER]
    if found.empty:
        return ""
    which = "less" if faster else "more"
    return (
        f"Processor time of the whole training, start and validation included: RSPO needs "
        f"{rspo['seconds']:.3f} s per step, {which} than {_all(found, len(rows) - 1)} by a factor "
        f"of at least {SLOWER:g} (without a test). It drops "
        f"{100 * rspo['zero_weight']:.0f} % of the responses, whose weight is 0."
    )


def _entropy(table: pd.DataFrame) -> str:
    rows, rspo = by_objective(table), reference(table)
    higher = rows[rows["entropy"] > rspo["entropy"]]
    if higher.empty:
        return f"Entropy late in training: RSPO's, {rspo['entropy']:.3f}, is the highest."
    return (
        f"Entropy late in training: RSPO's is {rspo['entropy']:.3f}; it is higher with "
        f"{_all(higher, len(rows) - 1)} (without a test)."
    )


def passes(rows: pd.DataFrame) -> list[str]:
    """Whether RSPO falls below the base model with several passes, why, and what else they do.

    Args:
        rows: those of the part "epochs".
    """
    lines = [_verdict(rows[rows["objective"] == RSPO])]
    for (objective, k), group in rows.groupby(["objective", "trained_k"], sort=False, dropna=False):
        for against, what in (
            ("one pass", "one pass"),
            ("as many updates", "as many updates on fresh responses (one pass, more steps)"),
        ):
            name, found = _name(str(objective), k), group[group["against"] == against]
            lines.append(_effect(name, found, what))
    return [line for line in lines if line]


def _verdict(rspo: pd.DataFrame) -> str:
    """Whether the published negative result appears, and whether off-policy updates explain it."""
    against_base = rspo[rspo["against"] == BASE]
    several = against_base[against_base["epochs"] > 1]
    below, above = _significant(several, -1), _significant(several, 1)
    if below.empty:
        return (
            "Not reproduced at this scale: with several passes, RSPO is not significantly below "
            f"the base model in any of {len(several)} comparisons, and significantly above it in "
            f"{len(above)}. {_OTHER_RUNS}, so this does not refute them."
        )
    where = joined(
        f"Pass@{row['k']:.0f} with k = {row['trained_k']:.0f} and {_passes(row['epochs'])} "
        f"({points(row['difference'])})"
        for _, row in below.iterrows()
    )
    return (
        f"Seen in {len(below)} of {len(several)} comparisons: with several passes, RSPO is "
        f"significantly below the base model at {where}, and significantly above it in "
        f"{len(above)}. {_OTHER_RUNS}. {_reason(below, rspo)}"
    )


def _reason(below: pd.DataFrame, rspo: pd.DataFrame) -> str:
    """Whether it is the off-policy updates: from the same Pass@k with fresh responses.

    Args:
        below: where RSPO with several passes is below the base model.
    """
    against_base = rspo[rspo["against"] == BASE]
    once = against_base[against_base["epochs"] == 1]
    same = ["trained_k", "n", "k"]
    pairs = below.merge(once, on=same, suffixes=("", "_once"))
    one_pass = pairs[pairs["steps_once"] == pairs["steps"]]
    fresh = pairs[pairs["steps_once"] == pairs["steps"] * pairs["epochs"]]
    lower = {
        name: int(((found["p_adjusted_once"] < LEVEL) & (found["difference_once"] < 0)).sum())
        for name, found in (("one pass", one_pass), ("fresh", fresh))
    }
    if lower["one pass"]:
        return (
            f"With one pass it is below it in {lower['one pass']} of these {len(below)} cases too, "
            "so off-policy updates are not the only reason."
        )
    if fresh.empty:
        return (
            "With one pass it is not. The table does not tell whether the reason is that the "
            "updates are off-policy, or that there are more of them."
        )
    differences = joined(points(value) for value in fresh["difference_once"])
    opening = (
        f"With one pass it is not. With as many updates on fresh responses, it is below it in "
        f"{lower['fresh']} of these {len(fresh)} cases ({differences})"
    )
    if lower["fresh"] == len(fresh):
        return f"{opening}: the number of updates explains it, without off-policy updates."
    tested = rspo[rspo["against"] == "as many updates"]
    directly = below.merge(tested, on=[*same, "epochs"], suffixes=("_of_base", ""))
    if lower["fresh"] == 0 and 0 < len(directly) == len(_significant(directly, -1)):
        return (
            f"{opening}, and significantly above several passes: the number of updates does not "
            "explain it, off-policy updates may."
        )
    if lower["fresh"] == 0:
        return f"{opening}. The table does not tell whether the number of updates explains it."
    return f"{opening}, so the number of updates explains a part of it."


_OTHER_RUNS = "The published runs differ in model, task, rewards and the evaluated k"


def _effect(name: str, rows: pd.DataFrame, what: str) -> str:
    """What several passes do to one objective, compared with something else."""
    if rows.empty:
        return ""
    lower, higher = _significant(rows, -1), _significant(rows, 1)
    if lower.empty and higher.empty:
        ends = [points(end) for end in sorted(rows["difference"])]
        return (
            f"{name}: compared with {what}, Pass@k of several passes differs by {ends[0]} to "
            f"{ends[-1]} points, nowhere significantly."
        )
    changes = [
        f"significantly {direction} at "
        + joined(
            f"Pass@{row['k']:.0f} with {_passes(row['epochs'])} ({points(row['difference'])})"
            for _, row in found.iterrows()
        )
        for direction, found in (("lower", lower), ("higher", higher))
        if len(found)
    ]
    return f"{name}: compared with {what}, several passes are {' and '.join(changes)}."


def _name(objective: str, k: float) -> str:
    return f"`{objective}`" if pd.isna(k) else f"`{objective}`, k = {k:.0f}"


def _passes(epochs: float) -> str:
    return "one pass" if epochs == 1 else f"{epochs:.0f} passes"


def joined(items: Iterable[str]) -> str:
    """Items of a sentence, each once: "a", "a and b", "a, b and c"."""
    return markdown.joined(dict.fromkeys(items))
