"""The versions of trainers that the adapters were tested with."""

from importlib.metadata import PackageNotFoundError, version

from rspo.core.errors import InputError


def require(package: str, supported: str) -> None:
    """Raises: InputError unless this version of a package is installed."""
    try:
        found = version(package)
    except PackageNotFoundError:
        raise InputError(
            f"{package} is not installed: `pip install {package}=={supported}`"
        ) from None
    if found != supported:
        raise InputError(
            f"found {package} {found}; rspo supports {package} {supported}, because its adapter "
            "uses functions that differ in other versions"
        )
