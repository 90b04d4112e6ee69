"""The rules of the verifier `math_verify`: when two written answers mean the same.

notation     text -> tokens, one spelling for one thing
prose        sentences around a formula, and letters of multiple choice
answers      tokens -> the shape of an answer: lists, points, sets, intervals, relations, formulas
expressions  tokens of a formula -> a tree of known operations; values: what such a tree is worth
numerals     numbers in words, e-notation, bases; units: of measure and of money
quantities   when two formulas are equal: as numbers, rounded, in other units
relations    equations and names; sets: intervals and inequalities
rules        these together
symbolic     math-verify, for what these do not read

Only worker processes import this package (`rspo.rewards.sandbox`): comparing can take for ever.
"""
