"""The picture of a diagnosis (`rspo diagnose --out`): not a figure of the report."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.figures import style
from rspo.figures.exact import LIMITS
from rspo.figures.figure import save
from rspo.figures.methods import label_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from rspo.objectives.diagnose import Diagnosis

_FORMS = {
    "weights": ("as they are", style.INK, "-"),
    "centred": ("centred", style.SKY, "--"),
    "standardized": ("standardized", style.ORANGE, "-."),
}
_PANELS = {
    "value": "$F(p)$, which it maximizes",
    "slope": "$F'(p)$",
    "signal_to_noise": "signal / noise",
}


def write_diagnosis(diagnosis: "Diagnosis", path: Path) -> None:
    """Draw F, F' and the signal-to-noise ratio against p for the three forms of the weights.

    Raises: InputError for a suffix other than .pdf and .png.
    """
    if path.suffix not in (".pdf", ".png"):
        raise InputError(f"{path}: allowed: .pdf, .png")
    with style.applied(), atomic_write(path) as file:
        save(draw(diagnosis), file, path.suffix)


def draw(diagnosis: "Diagnosis") -> "Picture":
    picture = style.new_picture(style.TEXT_WIDTH, 2.5)
    for axes, (quantity, title) in zip(picture.subplots(1, 3), _PANELS.items(), strict=True):
        for form, (label, colour, line) in _FORMS.items():
            values = getattr(getattr(diagnosis, form), quantity)
            axes.plot(diagnosis.p, values, label=label, color=colour, linestyle=line)
            if quantity == "signal_to_noise" and np.nanmax(values, initial=0.0) > 0:
                style.make_log10(axes, LIMITS)
                axes.set_ylim(LIMITS)
        axes.set(title=title, xlabel="$p$, probability of a correct response", xlim=(0, 1))
    picture.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    name = label_of(diagnosis.name, diagnosis.k)
    style.note(picture, f"{name}, groups of n = {diagnosis.n}; exact; 0/1 rewards")
    return picture
