"""Sample logs of lm-eval (`--log_samples`): a row for each document and filter."""

from collections.abc import Iterable
from dataclasses import replace

from rspo.core.errors import InputError, allowed_names
from rspo.formats.layout import Layout
from rspo.formats.paths import parsed
from rspo.formats.rows import Row


def one_filter(rows: Iterable[Row], choice: str) -> tuple[Iterable[Row], str]:
    """The rows of one filter: the rows of the others repeat the same responses.

    Args:
        choice: the name of the filter; empty for the first one of the file.

    Raises: InputError for a filter that the file does not have.
    """
    rows = list(rows)
    filters = list(dict.fromkeys(str(row.values.get("filter", "none")) for row in rows))
    chosen = choice or filters[0]
    if chosen not in filters:
        raise InputError(
            f"{rows[0].origin}: no filter {chosen!r}; {allowed_names(chosen, filters)}"
        )
    kept = []
    for row in rows:
        if str(row.values.get("filter", "none")) == chosen:
            kept.append(_with_target(row))
    if len(filters) == 1:
        return kept, ""
    others = ", ".join(f"--format lm-eval:{name}" for name in filters if name != chosen)
    return kept, f"one of {len(filters)} filters, {chosen}; another: {others}"


def _with_target(row: Row) -> Row:
    """The row with its accepted answers as a list, if it has them as a text.

    lm-eval writes every target as a text: those of a list are "['5', '5.0']".
    """
    target = row.values["target"]
    forms = parsed(target) if isinstance(target, str) else target
    is_list_of_texts = isinstance(forms, list) and all(isinstance(form, str) for form in forms)
    if not is_list_of_texts or not forms:
        return row
    return replace(row, values=row.values | {"target": forms})


LAYOUT = Layout(
    name="lm-eval",
    title="lm-eval, `--log_samples`",
    keys=(("doc_id", "doc", "target", "resps"),),
    # The text of the document is the same for all models; the prompt may have a model's template.
    problem=(
        "doc.problem",
        "doc.question",
        "doc.Problem",
        "doc.Question",
        "doc.query",
        "doc.input",
        "doc.prompt",
        "arguments.gen_args_0.arg_0",
        "arguments.0.0",
        "doc_hash",
        "doc_id",
    ),
    id=("doc_id",),
    answer=("target",),
    response=("resps.0",),  # a document has one request, with a list of its repeats
    prepare=one_filter,
    has_parts=True,
)
