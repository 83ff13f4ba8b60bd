"""Lets pip build the module with CMake, which knows how to compile the core's kernels for each instruction set."""
import os
import pathlib
import re
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = pathlib.Path(__file__).resolve().parent


def version():
    return re.search(r"project\(normball VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        target = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve()
        build = pathlib.Path(self.build_temp).resolve() / "cmake"
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DNORMBALL_PYTHON=ON", f"-DPython3_EXECUTABLE={sys.executable}"]
        options += [f"-DNORMBALL_{part}=OFF" for part in ("TESTS", "CLI", "TORCH", "EXAMPLES")]
        try:
            import pybind11
            options.append(f"-Dpybind11_DIR={pybind11.get_cmake_dir()}")
        except ImportError:
            pass  # the system's, from Debian's pybind11-dev
        subprocess.run(["cmake", "-S", SOURCE, "-B", build, *options], check=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        subprocess.run(["cmake", "--build", build, "--target", "normball_python", "--parallel", jobs], check=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        self.copy_file(str(next((build / "python" / "normball").glob("_core*.so"))), str(target))


setup(version=version(), ext_modules=[Extension("normball._core", [])], cmdclass={"build_ext": CMakeBuild})
