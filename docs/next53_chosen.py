"""Print the rates that learning_rates chooses, for the cells of own_rates, peers and need_a_k."""

import sys
from pathlib import Path
from rspo.analysis import choice, studies
from rspo.analysis.measure import Measurer
from rspo.config.experiment import Experiment

e = Experiment.load("tiny", {}, root=Path(sys.argv[1] if len(sys.argv) > 1 else "."))
for name in ("own_rates", "peers", "need_a_k"):
    es = e.of_study(name)
    m = Measurer(es)
    lines = studies.lines_of(es, name)
    own_ks = {"own_rates": (2, 4, 8), "peers": (1, 2, 4, 8, 16), "need_a_k": ("all",)}[name]
    # own_rates and peers choose at every k of evaluation, so every one of these has to be among the cells.
    bys = ("all",) if name == "need_a_k" else tuple(es.config.evaluation.k)
    found = {}
    for by in bys:
        compared = lines if by == "all" else choice.compared_at(es.config.studies[name], lines, by)
        for objective, k, n, variant in choice.best_variants(m, name, compared, by):
            found.setdefault((objective, k), {}).setdefault(variant, []).append(by)
    print(f"== {name} ({len(lines)} lines now)")
    have = {(l.objective, l.k, l.variant) for l in lines}
    for (objective, k), variants in sorted(found.items(), key=str):
        for variant, at in sorted(variants.items()):
            mark = "" if (objective, k, variant) in have else "   <-- add"
            print(f"  {objective} k={k}: {variant} at {at}{mark}")
