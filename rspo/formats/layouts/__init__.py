"""The layouts of other tools. Each has a module, and `LAYOUTS` lists them."""

from rspo.core.errors import InputError, allowed_names
from rspo.formats.layout import Layout
from rspo.formats.layouts import (
    evalplus,
    human_eval,
    inspect_ai,
    lighteval,
    lm_eval,
    nemo_skills,
    plain,
    qwen_math,
    verl,
)
from rspo.formats.rows import Row

PLAIN = plain.LAYOUT
# In this order, rows are compared with the keys of each.
LAYOUTS = {
    layout.name: layout
    for layout in (
        PLAIN,
        lm_eval.LAYOUT,
        lighteval.LAYOUT,
        inspect_ai.LAYOUT,
        qwen_math.LAYOUT,
        verl.DUMP,
        verl.GENERATION,
        nemo_skills.LAYOUT,
        human_eval.LAYOUT,
        evalplus.LAYOUT,
    )
}


def layout_of(row: Row, stated: str | None = None) -> Layout:
    """The layout of a file whose first row this is; the plain one if the row fits no other.

    Args:
        stated: the name of the layout, if the user states it.

    Raises: InputError if the row does not fit the stated layout.
    """
    if stated is None:
        fitting = (layout for layout in LAYOUTS.values() if layout.fits(row.values))
        return next(fitting, PLAIN)
    if stated not in LAYOUTS:
        raise InputError(f"no format {stated!r}; {allowed_names(stated, LAYOUTS)}")
    layout = LAYOUTS[stated]
    if layout is not PLAIN and not layout.fits(row.values):
        needed = " or ".join(", ".join(paths) for paths in layout.keys)
        has = ", ".join(row.values) or "no keys"
        raise InputError(f"{row}: is not in the format {stated}, which has {needed}; has {has}")
    return layout
