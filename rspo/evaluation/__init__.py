"""Samples -> scores -> curves: Pass@k and Max@k of a policy, with their errors.

estimators         Pass@k, Max@k and their variances from a problem's N samples: pure functions
statistics         errors over samples, problems and seeds; multiple tests: pure functions
sample             `rspo sample`: a policy's responses to a benchmark
score              `rspo score`: verdicts and rewards of a policy's samples
score_file         `rspo score-file`: verdicts on any file of responses
verification       verify responses and write the scores table; used by both
journal            resume an unfinished samples or scores table
score_arrays       read scores tables into arrays
curves             `rspo curves` and `rspo tables`: estimates, errors and intervals
pass_at_k_of_file  `rspo pass-at-k`: the same of any scores table
scored_samples     samples joined with their scores and problems
agreement          `rspo agreement`: compare two verifiers
gradients          `rspo gradients`: signal and variance of every objective's gradient
"""
