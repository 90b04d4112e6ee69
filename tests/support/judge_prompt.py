"""A git repository with a judge's prompt, laid out as xVerify's own."""

import subprocess
from pathlib import Path

FILE = "src/xVerify/prompts/judge_prompt.py"


def commit(repository: Path, source: str) -> str:
    """Commit the prompt file, creating the repository if needed; returns the commit's hash."""
    path = repository / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    author = ["-c", "user.name=test", "-c", "user.email=test@test.invalid"]
    git = ["git", "-C", str(repository)]
    if not (repository / ".git").exists():
        subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, *author, "commit", "-q", "-m", "prompt"], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()
