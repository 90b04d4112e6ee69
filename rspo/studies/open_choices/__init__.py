"""The study `open_choices`: the settings that the paper leaves open, each varied alone.

Its entry in the config's `studies` has the cells of the config as it is (the variant `default`) and
of variants with one other setting. For each, the claims C1, C3 and C10 are decided on the methods
that the entry has, and their estimates are compared with those of the default.

This module imports no pandas: the Snakefile reads it to plan.
"""

from rspo.studies.study import Study

COLUMNS = {
    "part": "claim, comparison (one of those that decide a claim), change, or training",
    "variant": "name in the config's variants; default: the config as it is",
    "choice": "the setting that the variant changes",
    "value": "its value",
    "default": "its value in the config",
    "setting": "its key in the config",
    "claim": "C1, C3 or C10",
    "comparison": "what is compared; in a row of training, the method",
    "where": "pooled, or a benchmark",
    "k": "of Pass@k, averaged over these",
    "estimate": "of the comparison; of a claim: its mean over k, all problems pooled; of a change: "
    "the claim's estimate minus that of the default, paired over problems",
    "low": "lower end of its 95 % interval, not adjusted",
    "high": "upper end",
    "p": "two-sided p-value of a comparison or change",
    "family": "tests that the p-value is adjusted over",
    "tests": "number of tests in the family",
    "p_adjusted": "by Holm's method over the family",
    "outcome": "of a comparison: for the claim, against it, or open",
    "verdict": "on the claim, as in `rspo claims`, from its comparisons",
    "ppo_clipped": "in training: fraction of tokens whose probability ratio PPO clips",
    "gradient_clipped": "in training: fraction of updates whose gradient is clipped",
    "finished": "in training: fraction of responses that end before the limit",
    "seeds": "training seeds",
    "problems": "test problems",
    "samples": "of each problem",
    "cells": "policies",
}

STUDY = Study("open_choices", COLUMNS)
