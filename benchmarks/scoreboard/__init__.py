"""What the running sources of trainers maximize: `make scoreboard`, and docs/scoreboard.md.

projects.yaml   the sources, and the calls of each one
adapters/       a module for each trainer, which calls its function with groups of rewards
child.py        one source in a process of its own: its calls, and what they maximize
stubs.py        stand-ins for packages that a source imports and its function does not use
__main__.py     installs or finds the sources, runs the children, writes docs/scoreboard.json
page.py         docs/scoreboard.md from docs/scoreboard.json
"""

N = 8  # responses of a group
SLOPES = (0.1, 0.5, 0.9)  # the p at which F'(p) is given
