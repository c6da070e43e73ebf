"""Write constraints.txt: the exact versions that users, developers and CI get.

One resolution covers every supported Python on both processors; a line carries a
marker where the answer differs. uv does it because pip resolves only for the
interpreter that runs it. Run through ``make lock``.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCOPE = ("python_full_version < '3.14'", "sys_platform == 'linux'")
"""What every marker would repeat: the environments named under [tool.uv]."""
HEADER = """\
# The exact versions that edgepipe is tested with, on Linux, x86-64 and aarch64,
# Python 3.10 to 3.13. Written by `make lock`; use it with pip install -c.
"""


def resolve() -> str:
    """Return uv's resolution as requirement lines."""
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "pip", "compile", "pyproject.toml", "--universal", "--upgrade"]
    command += ["--python-version=3.10", "--no-python-downloads", "--quiet"]
    command += [
        "--extra=jpeg",
        "--extra=models",
        "--extra=robot",
        "--extra=samples",
        "--group=dev",
    ]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url"]
    return subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def without_scope(line: str) -> str:
    """Drop from a line's marker what holds for the whole file."""
    requirement, _, marker = line.partition(" ; ")
    clauses = [c for c in marker.split(" and ") if c and c not in SCOPE]
    return f"{requirement} ; {' and '.join(clauses)}" if clauses else requirement


def main() -> None:
    """Resolve and write."""
    lines = [without_scope(line) for line in resolve().splitlines()]
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
