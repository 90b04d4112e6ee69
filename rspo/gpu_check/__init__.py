"""`rspo gpu-check`: everything that a training on this node needs, step by step, in 20 minutes.

steps       which steps there are, and what each needs
run         runs them, each in processes of its own, and writes the table as it goes
table       the table as text
one_step    the process of a step: calls its check
settings    what a check knows, and the overrides of config/smollm.yaml
random_judge  a judge with random verdicts

The checks: software (driver and packages), attention, collectives, model, sampling, training,
judge, weights, evaluation.
"""
