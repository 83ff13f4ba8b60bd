"""lmo, norm, dual_norm and sharp on NumPy arrays, against NumPy's own linear algebra."""
import math

import normball
import numpy as np
import pytest

SHAPES = [(), (7,), (5, 9), (9, 5), (6, 3, 4), (6, 4, 3, 3)]
NORMS = ["auto", "euclidean", "rms", "sign", "sign(unit)", "spectral", "spectral(input)", "spectral(onehot)", "row",
         "col", "col(transposed)", "onehot", "output"]


def gaussian(shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype,tolerance", [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_lmo_is_the_minimizer_on_the_unit_sphere(shape, norm, dtype, tolerance):
    d = np.asarray(gaussian(shape, dtype))
    x = normball.lmo(d, norm=norm)
    assert x.shape == d.shape and x.dtype == d.dtype
    assert normball.norm(x, norm=norm) == pytest.approx(1, rel=tolerance)
    assert -(d.astype(float) * x).sum() == pytest.approx(normball.dual_norm(d, norm=norm), rel=tolerance)
    for seed in range(1, 6):  # Hoelder: no point of the ball does better
        y = np.asarray(gaussian(shape, dtype, seed))
        assert (d * y).sum() <= normball.dual_norm(d, norm=norm) * normball.norm(y, norm=norm) * (1 + tolerance)


@pytest.mark.parametrize("solver", [None, "exact", "svd"])
def test_the_spectral_lmo_is_the_polar_factor(solver):
    d = gaussian((6, 10))
    u, _, vh = np.linalg.svd(d, full_matrices=False)
    x = normball.lmo(d, norm="spectral", solver=solver)
    np.testing.assert_allclose(x, -math.sqrt(6 / 10) * u @ vh, atol=1e-12)


def test_a_convolution_is_flattened_and_divided_by_its_kernel():
    d = gaussian((6, 4, 3, 3))
    u, _, vh = np.linalg.svd(d.reshape(6, 36), full_matrices=False)
    expected = -math.sqrt(6 / 4) / 9 * (u @ vh).reshape(d.shape)
    np.testing.assert_allclose(normball.lmo(d, norm="spectral"), expected, atol=1e-12)
    np.testing.assert_allclose(normball.lmo(d), expected, atol=1e-12)


def test_sharp_is_the_dual_norm_times_the_lmo():
    d = gaussian((4, 6))
    for norm in ("spectral", "sign", "rms"):
        np.testing.assert_allclose(normball.sharp(d, norm), -normball.dual_norm(d, norm) * normball.lmo(d, norm),
                                   rtol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_zero_maps_to_zero(norm):
    assert not normball.lmo(np.zeros((3, 4)), norm=norm).any()


def test_strided_input_is_read_as_it_is():
    d = gaussian((8, 12))
    np.testing.assert_array_equal(normball.lmo(d.T[::2], "spectral"), normball.lmo(d.T[::2].copy(), "spectral"))
    assert normball.norm(d[:, ::3], "sign") == normball.norm(d[:, ::3].copy(), "sign")


def test_initialization_is_on_the_sphere_and_repeatable():
    for norm in ("spectral", "sign", "row", "col"):
        x = normball.initialize((6, 4, 3, 3), norm, radius=2.5, seed=3, dtype=np.float64)
        assert normball.norm(x, norm) == pytest.approx(2.5, rel=1e-10)
        np.testing.assert_array_equal(x, normball.initialize((6, 4, 3, 3), norm, 2.5, 3, np.float64))
    assert not normball.initialize((5,), "rms").any()


@pytest.mark.parametrize("call,parts", [
    (lambda: normball.lmo(np.ones((2, 2)), norm="spektral"), ["[parse_norm]", "'spektral'", "spectral"]),
    (lambda: normball.lmo(np.ones((2, 2)), norm="spectral", solver="muno"), ["[parse_polar_solver]", "muno", "muon"]),
    (lambda: normball.lmo(np.ones((2, 2)), norm="sign", solver="muon"), ["only the spectral norm", "sign"]),
    (lambda: normball.lmo(np.array([[1.0, np.nan]])), ["[lmo]", "not finite"]),
    (lambda: normball.lmo(np.ones((2, 2), int)), ["[lmo]", "int64", "float32"]),
    (lambda: normball.norm(np.ones((2, 2), complex)), ["[norm]", "complex128"]),
    (lambda: normball.initialize((2, 2), radius=-1), ["radius", "-1"]),
    (lambda: normball.initialize((2, 2), dtype=np.float16), ["[initialize]", "float16"]),
])
def test_errors_say_what_came_and_what_is_allowed(call, parts):
    with pytest.raises(ValueError) as error:
        call()
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize("value,text", [
    ([[1.0], [2.0, 3.0]], "not an array of numbers"), (np.ma.masked_array(np.ones((2, 2)), mask=True), "masked"),
    (np.ones((2, 2), dtype=">f4"), ">f4"), (None, "object"), ("abc", "U3")])
def test_what_is_no_array_of_floats_is_refused(value, text):
    for function in (normball.lmo, normball.sharp, normball.norm, normball.dual_norm):
        with pytest.raises(ValueError, match=rf"\[{function.__name__}\].*{text}"):
            function(value)


def test_version_is_the_core_s():
    assert normball.__version__.count(".") == 2
