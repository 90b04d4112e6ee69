"""The decorator `command`, which makes a function a subcommand of `rspo`."""

from collections.abc import Callable, Iterable
from inspect import Signature, signature
from typing import Any

import typer

from rspo.cli.options import load_experiment

Output = int | str | Iterable[str] | None  # an exit status, or text or lines to print (status 0)
Command = Callable[..., Output]

app = typer.Typer(
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="RSPO: risk-seeking policy optimization for Pass@k and Max@k.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def command(panel: str, *examples: str) -> Callable[[Command], Command]:
    """Decorate a function to make it a subcommand, and leave the function as it is.

    Its parameters become arguments and options. The parameter `experiment`, if it has one, becomes
    the options --scale, --set and --results.

    Args:
        panel: the panel of `rspo --help` that lists the subcommand.
        examples: command lines for the subcommand's own help.
    """
    epilog = "[bold]Example:[/bold]" + "".join(f"\n\n  {example}" for example in examples)

    def register(function: Command) -> Command:
        name = function.__name__.replace("_", "-")
        app.command(name, rich_help_panel=panel, epilog=epilog)(_parsed(function))
        return function

    return register


def _parsed(function: Command) -> Callable[..., Callable[[], Output]]:
    """The function that Typer calls with the parsed arguments.

    It does not run the command, but returns a function that does. So the command runs after Typer
    has returned, outside of Typer's handling of exceptions and exit statuses.
    """
    parameters = dict(signature(function).parameters)
    takes_experiment = parameters.pop("experiment", None) is not None
    options = signature(load_experiment).parameters if takes_experiment else {}
    parameters.update(options)

    def parsed(**arguments: Any) -> Callable[[], Output]:
        def call() -> Output:
            # The options that select the experiment become the one argument `experiment`.
            if takes_experiment:
                selected = {name: arguments.pop(name) for name in options}
                arguments["experiment"] = load_experiment(**selected)
            return function(**arguments)

        return call

    # Typer reads the options from these two, and the help text from the docstring.
    parsed.__signature__ = Signature(list(parameters.values()))  # type: ignore[attr-defined]
    parsed.__annotations__ = {name: item.annotation for name, item in parameters.items()}
    parsed.__doc__ = function.__doc__
    return parsed


def use_one_thread() -> None:
    """Make PyTorch use one thread.

    Results depend on the number of threads, by rounding. For small models, two processes of one
    thread are faster than one process of two.
    """
    import torch

    torch.set_num_threads(1)
