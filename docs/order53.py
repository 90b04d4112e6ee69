from pathlib import Path
from rspo.config.experiment import Experiment
from rspo.analysis import claims, studies

e = Experiment.load("tiny", {"seeds": 5}, root=Path("/work/wt/screen"))
d = Experiment.load("tiny", {}, root=Path("/work/wt/screen"))
TRAIN, VALID, EVAL, BASE = 22.0, 5.0, 15.0, 105.0
trained, evaluated, bases = set(), set(), set()


def step(name, ex, cells, policies, samples):
    real = [c for c in cells if not ex.is_derived(c)]
    new = [c for c in real if c not in trained]
    sec = 0.0
    for c in new:
        t = ex.for_cell(c).config.training
        sec += TRAIN * t.last_step * t.prompts_per_step * ex.cell(c).n / (150 * 40 * 16)
        sec += VALID if t.validation.every else 0
    nb = [p for p in policies if ex.is_base(p) and p not in bases]
    sec += BASE * len(nb)
    blocks = {(p, b) for p in policies for b in range(samples // 128)}
    sec += EVAL * len(blocks - evaluated)
    evaluated.update(blocks)
    trained.update(real)
    bases.update(nb)
    print(
        f"{name}: {len(cells)} cells, {len(new)} new trainings, {len([c for c in cells if ex.is_derived(c)])} derived, {len(nb)} new bases; {sec / 60:.0f} processor min, {sec / 120:.0f} min on two idle cores"
    )
    return sec


tot = 0
tot += step("demo (seeds 1)", d, list(d.cells), list(d.policies), 128)
tot += step("results (seeds=5)", e, list(e.cells), list(e.policies), 128)
for n in (
    "learning_rates",
    "own_rates",
    "need_a_k",
    "peers",
    "remedies",
    "overtake",
    "wrong_verdicts",
    "open_choices",
    "passes",
    "knobs",
):
    s = d.config.studies[n]
    es = d.of_study(n)
    tot += step(n, es, [c.name for c in d.cells_of(n)], d.policies_of(n), s.samples or 128)
print(tot / 3600)
