"""The README's example, as it is printed there, runs and learns."""
import pathlib
import re

import torch

README = pathlib.Path(__file__).parents[2] / "README.md"


def test_the_ten_lines_learn(capsys):
    text = README.read_text(encoding="utf-8")
    code = re.search(r"## Ten lines of PyTorch\n+```python\n(.*?)```", text, re.DOTALL)[1]
    torch.manual_seed(0)
    variables = {}
    exec(compile(code, "README.md", "exec"), variables)
    assert "spectral" in capsys.readouterr().out  # explain()
    assert variables["loss"].item() < 0.5 * torch.log(torch.tensor(10.0))
