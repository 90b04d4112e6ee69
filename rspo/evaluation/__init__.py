"""Samples -> scores -> curves: how good a policy is at Pass@k and Max@k, and how surely.

estimators  Pass@k, Max@k and their variances from a problem's N samples: pure functions
sample      a policy's responses to a benchmark
score       verdicts and rewards of responses
scores      those as arrays: the one place that reads them
statistics  errors over samples, problems and training seeds; differences, several tests at once
curves      estimates, errors and intervals over the problems of a suite
tables      the curves of every policy as one CSV
"""
