"""RSPO: risk-seeking policy optimization for Pass@k and Max@k.

`rspo.diagnose("maxpo", k=4, n=16)` shows what an objective maximizes and how noisy it is, and
`rspo.check_weights(my_function, k=4, n=16)` checks a weight function of your own.
"""

# As in `typing`, which the command `rspo` does not import before it handles Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from rspo.objectives.contract import check_weights
    from rspo.objectives.diagnose import diagnose

__version__ = "0.2.0"
__all__ = ["__version__", "check_weights", "diagnose"]


def __getattr__(name: str) -> object:
    """Import numpy only when a function is used: the command line imports this package first."""
    if name == "check_weights":
        from rspo.objectives.contract import check_weights

        return check_weights
    if name == "diagnose":
        from rspo.objectives.diagnose import diagnose

        return diagnose
    raise AttributeError(f"module 'rspo' has no attribute {name!r}")
