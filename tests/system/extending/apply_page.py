"""Applies docs/extending.md to a copy of the sources: files that it shows are made, changes that it shows are patched in."""
import pathlib
import re
import subprocess
import sys


def main(page: str, root: str) -> None:
    text = pathlib.Path(page).read_text()
    files = re.findall(r"^`([^`]+)`:\n\n```(?:cpp|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    changes = re.findall(r"^```diff\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    blocks = text.count("\n```") // 2
    if blocks != len(files) + len(changes) or not files or not changes:
        sys.exit(f"{page}: {blocks} blocks of code, but {len(files)} files and {len(changes)} changes")
    for name, content in files:
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for change in changes:
        subprocess.run(["patch", "-p1", "--fuzz=0", "--directory", root], input=change, text=True, check=True)


main(*sys.argv[1:])
