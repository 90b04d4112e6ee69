"""The study `wrong_verdicts`: what a verifier's random errors in training cost.

Its entry in the config's `studies` has the cells of the config as it is and of variants with
`rewards.false_accepts` or `rewards.false_rejects`. Evaluation has no such errors.

This module imports no pandas: the Snakefile reads it to plan.
"""

from rspo.studies.study import Study

COLUMNS = {
    "part": "level (Pass@k), change (from that without errors), against PG (the method's change "
    "minus policy gradient's), accepts - rejects (change by false accepts minus that by false "
    "rejects), weight (expected weight of a false accept), or share (of the weight that false "
    "accepts have)",
    "method": "label of the method",
    "objective": "name in rspo.objectives",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "errors": "none, false accepts, or false rejects; control: none, and another change, too small "
    "to matter; both: where false accepts and rejects are compared",
    "rate": "of the incorrect responses that are accepted, or the correct ones that are rejected",
    "k": "of Pass@k; the mean over these",
    "estimate": "of Pass@k or of the difference, in fractions",
    "low": "lower end of its 95 % interval, not adjusted",
    "high": "upper end",
    "p": "two-sided p-value of a difference",
    "family": "tests that the p-value is adjusted over",
    "tests": "number of tests in the family",
    "p_adjusted": "by Holm's method over the family",
    "success": "probability that a response to the prompt is correct",
    "weight": "expected weight of a false accept, as a multiple of policy gradient's, 1/n",
    "of_success": "mean weight of a false accept over that of a true success, on the test problems",
    "of_clean": "this weight, relative to that of a true success if verdicts had no errors",
    "policy": "the policy whose Pass@k give the share: base, or trained (without errors)",
    "share": "expected weight of all false accepts, relative to that of all accepted responses",
    "seeds": "training seeds",
    "problems": "test problems",
    "samples": "of each problem",
    "cells": "policies",
}

STUDY = Study("wrong_verdicts", COLUMNS)
