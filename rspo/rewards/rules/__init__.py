"""The verifier `rules`: decides whether two written answers mean the same.

`equivalence` is the entry point, and combines the other modules:

notation     text -> tokens in a canonical notation
prose        formulas in sentences, and letters of multiple choice
answers      tokens -> the structure of an answer: list, point, set, interval, relation or formula
expressions  tokens of a formula -> a tree of known operations
values       the value of such a tree
numerals     numbers in words and in scientific notation
phrases      words for sets and for "no answer"
words        equality of words, and of letters that are no product
dates        equality of times, dates and ranges
vectors      sums of unit vectors
units        units of measurement and currencies
labels       names of the items of a list, as in `maximum: 2, minimum: 1`
quantities   equality of two formulas: as numbers, rounded, in other units
roundings    formulas in which constants are rounded decimals
relations    equations and names
membership   equality of sets of numbers by their members
symbolic     the library math-verify, only for formulas that `expressions` cannot parse: integrals,
             sums, limits and arithmetic of matrices

In all of them, `gold` is the answer of the data set, and `prediction` is that of a response. Only
worker processes import this package (`rspo.rewards.sandbox`), because a comparison may not
terminate.
"""
