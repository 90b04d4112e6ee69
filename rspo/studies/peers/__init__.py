"""The study `peers`: RSPO and the other published objectives, trained under equal settings.

Its entry in the config's `studies` has cells of two kinds:

objectives   one or several variants of each objective, such as learning rates, of which the
             comparison uses the one with the highest Pass@k on the validation split
epochs       an objective, k and n with several values of training.epochs, compared with the base
             model, with a single pass, and with a single pass in as many times more steps

An objective of a user takes part if the entry has a cell of it.

This module imports no pandas: the Snakefile reads it to plan.
"""

from rspo.studies.study import Study

COLUMNS = {
    "part": "objectives, epochs (several passes over the responses of a step), base, or left out",
    "objective": "name in rspo.objectives; base for the base model",
    "trained_k": "k of the objective; empty where it has none",
    "n": "responses per prompt in training",
    "epochs": "passes over the responses of a step",
    "steps": "of training",
    "learning_rate": "of the chosen cells",
    "rates": "learning rates to choose from, in ascending order",
    "rate_is": "where the chosen one is among them: lowest, inner, highest or only",
    "validation": "Pass@k, k of RSPO, on the validation split after the last step, mean over seeds",
    "k": "of Pass@k on the test problems, in this row",
    "pass_at_k": "on all test problems, mean over seeds",
    "error": "its standard error over problems and, with several seeds, over seeds",
    "against": "what the objective is compared with in this row: rspo; base; one pass; or as many "
    "updates: one pass in each of `epochs` times as many steps",
    "difference": "Pass@k minus that of what it is compared with, paired over problems",
    "low": "lower end of its 95 % interval, not adjusted",
    "high": "upper end",
    "p": "two-sided p-value",
    "family": "tests that the p-value is adjusted over",
    "tests": "number of tests in the family",
    "p_adjusted": "by Holm's method over the family",
    "entropy": "of the policy in the last third of training, nats per token, mean over seeds",
    "zero_weight": "fraction of responses with weight 0, mean over steps and seeds",
    "seconds": "processor seconds of training per step, start and validation included, mean over "
    "all variants and seeds",
    "variance": "tr Cov of the gradient on the base model, as a multiple of RSPO's",
    "noise": "tr Cov of the gradient over the squared length of its mean, on the base model",
    "noise_low": "lower end of its 95 % interval over prompts",
    "noise_high": "upper end",
    "same_as": "left out, because for 0/1 rewards it has this objective's weights times a constant",
    "seeds": "training seeds",
    "problems": "test problems",
    "samples": "of each problem",
    "cells": "the policies whose Pass@k it is",
}

STUDY = Study("peers", COLUMNS)
