"""The choice of OpenBLAS's kernels before it is loaded, and ``python -m normball.doctor``."""
import json
import os
import subprocess
import sys

import pytest
from normball import _core, _environment, doctor

AVX512 = "avx512f avx512cd avx512dq avx512bw avx512vl"


def cpuinfo(flags, vendor="GenuineIntel"):
    return f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu sse2 {flags}\n\nprocessor\t: 1\n"


@pytest.mark.parametrize("text,expected", [
    (cpuinfo(f"avx avx2 fma {AVX512}"), "SKYLAKEX"),
    (cpuinfo(f"avx avx2 fma {AVX512}", "AuthenticAMD"), "SKYLAKEX"),
    (cpuinfo("avx avx2 fma avx512f"), "HASWELL"),
    (cpuinfo("avx avx2 fma", "AuthenticAMD"), "ZEN"),
    (cpuinfo("avx"), "SANDYBRIDGE"),
    (cpuinfo("sse4_2"), ""),
    ("", ""),
    ("Features : asimd", ""),
])
def test_core_type(text, expected):
    assert _environment.core_type(text) == expected


def test_the_core_chooses_the_same_for_this_processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        assert _environment.core_type(file.read()) == _core.core_type_for_this_processor()


def test_only_where_nobody_chose_and_nothing_is_loaded():
    text = cpuinfo("avx avx2 fma")
    assert _environment.wanted({}, "", text) == "HASWELL"
    assert _environment.wanted({"OPENBLAS_CORETYPE": ""}, "", text) == "HASWELL"
    assert _environment.wanted({"OPENBLAS_CORETYPE": "ZEN"}, "", text) == ""
    assert _environment.wanted({}, "7f00 r-xp /usr/lib/openblas-openmp/libopenblasp-r0.3.21.so", text) == ""


def run(*arguments, **environment):
    inherited = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    return subprocess.run([sys.executable, *arguments], env={**inherited, **environment}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, check=False)


def test_import_leaves_the_environment_alone():
    code = "import os, normball; print(normball._core.blas_core(), os.environ.get('OPENBLAS_CORETYPE'))"
    result = run("-c", code)
    assert result.stderr == ""
    core, variable = result.stdout.split()
    assert variable == "None"
    if _core.blas_core():  # another BLAS has no such names
        assert core.upper() == (_core.core_type_for_this_processor() or core.upper())
        assert run("-c", code, OPENBLAS_CORETYPE="PRESCOTT").stdout.split() == ["Prescott", "PRESCOTT"]


def test_doctor():
    result = run("-m", "normball.doctor", "--json", OMP_WAIT_POLICY="passive")
    lines = {line["subject"]: line for line in json.loads(result.stdout)}
    assert list(lines) == ["processor", "matrix unit", "BLAS", "BLAS kernels", "OpenMP", "cores", "threads",
                           "huge pages", "disk", "torch"]
    assert result.returncode == (1 if any(line["state"] == "wrong" for line in lines.values()) else 0)
    assert all(line["remedy"] for line in lines.values() if line["state"] == "wrong")
    text = doctor.report([doctor.Line(**line) for line in lines.values()])
    assert all(line["text"] in text and line["remedy"] in text for line in lines.values())


def test_doctor_names_what_is_wrong():
    cores = len(os.sched_getaffinity(0))
    result = run("-m", "normball.doctor", OMP_NUM_THREADS=str(cores + 1), OMP_WAIT_POLICY="passive")
    assert result.returncode == 1
    assert f"wrong  threads       {cores + 1} threads by default" in result.stdout
    assert "-> unset OMP_NUM_THREADS" in result.stdout
    if _core.core_types_to_compare():
        result = run("-m", "normball.doctor", OPENBLAS_CORETYPE="PRESCOTT", OMP_WAIT_POLICY="passive")
        assert result.returncode == 1 and "-> unset OPENBLAS_CORETYPE" in result.stdout


def test_doctor_names_threads_of_torch_that_are_not_the_cores(monkeypatch):
    """As under a control group that grants less than the cores, which torch does not ask."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        monkeypatch.setattr(doctor._core, "usable_cpus", lambda: 2)
        assert doctor._torch().state == "good"
        monkeypatch.setattr(doctor._core, "usable_cpus", lambda: 1)
        line = doctor._torch()
        assert line.state == "wrong" and "2 threads of its own, which steps follow, on 1 core to use" in line.text
        monkeypatch.setattr(doctor._core, "usable_cpus", lambda: 3)
        assert doctor._torch().state == "note" and "torch.set_num_threads(3)" in doctor._torch().remedy
        monkeypatch.setattr(doctor._core, "usable_cpus", lambda: 1)
        torch.set_num_threads(1)  # the remedy
        assert "torch.set_num_threads(1)" in line.remedy and doctor._torch().state == "good"
    finally:
        torch.set_num_threads(before)


def test_doctor_names_what_the_environment_holds_down():
    pytest.importorskip("torch")
    if _core.core_type_for_this_processor() not in ("HASWELL", "ZEN", "SKYLAKEX"):
        pytest.skip("this processor has no AVX2 to hold down")
    held = {"NORMBALL_KERNELS": "generic", "ATEN_CPU_CAPABILITY": "default"}
    result = run("-m", "normball.doctor", **held)
    assert result.returncode == 1
    assert all(f"-> unset {name} (it is {value})" in result.stdout for name, value in held.items()), result.stdout


def test_a_reader_that_stops_early():
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run([sys.executable, "-m", "normball.doctor", "--json"], stdout=writer, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "OMP_WAIT_POLICY": "passive"}, check=False)
    os.close(writer)
    assert (result.stderr, result.returncode) == ("", 0)
