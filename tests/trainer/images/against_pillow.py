"""Decoding, resizing and RandAugment's operations against Pillow: against_pillow.py PROGRAM."""

import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from PIL import Image, ImageEnhance, ImageOps
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pictures import photograph  # noqa: E402

FILL = (124, 116, 104)


class Program:
    """Calls are collected and run at once; each is then compared with what Pillow gives."""

    def __init__(self, path, directory):
        self.path, self.directory, self.calls = path, directory, []

    def add(self, label, call, expected, most):
        out = os.path.join(self.directory, f"{len(self.calls)}.ppm")
        self.calls.append((label, f"{call} {out}", out, expected, most))

    def run(self):
        text = "".join(f"{call}\n" for _, call, _, _, _ in self.calls)
        printed = subprocess.run([self.path], input=text, capture_output=True, text=True, check=True).stdout
        assert "error" not in printed, printed
        worst = {}
        for label, _, out, expected, most in self.calls:
            ours, theirs = np.asarray(Image.open(out)).astype(int), np.asarray(expected).astype(int)
            assert ours.shape == theirs.shape, f"{label}: {ours.shape}, Pillow has {theirs.shape}"
            difference = np.abs(ours - theirs)
            assert difference.max() <= most, f"{label}: differs by {difference.max()}, allowed are {most}"
            largest, share = worst.get(label, (0, 0))
            worst[label] = (max(largest, difference.max()), max(share, np.mean(difference > 0)))
        for label, (largest, share) in worst.items():
            print(f"{label:32} largest difference {largest}, in {100 * share:.2f} % of the values")
        self.calls.clear()


def files_of_every_kind(directory, generator):
    """(label, path, what Pillow makes of it)"""
    image = photograph(301, 203, generator.integers(2**32))
    found = []

    def save(label, picture, name, expected=None, **options):
        path = os.path.join(directory, name)
        picture.save(path, **options)
        found.append((label, path, expected if expected is not None else Image.open(path).convert("RGB")))

    for subsampling in (0, 1, 2):
        save(f"JPEG, subsampling {subsampling}", image, f"s{subsampling}.jpg", subsampling=subsampling, quality=88)
    save("JPEG, progressive", image, "progressive.jpg", progressive=True)
    save("JPEG, grey", image.convert("L"), "grey.jpg")
    save("JPEG, CMYK", image.convert("CMYK"), "cmyk.jpg", quality=95)
    save("PNG", image, "rgb.png")
    save("PNG, named .jpg", image, "really.jpg", format="PNG")
    save("PNG, grey", image.convert("L"), "grey.png")
    save("PNG, grey and alpha", image.convert("LA"), "greyalpha.png")
    save("PNG, 1 bit", image.convert("1"), "bit.png")
    save("PNG, palette", image.quantize(200), "palette.png")
    save("PNG, palette of 4", image.quantize(4), "palette4.png")
    save("PNG, palette, one transparent", image.quantize(16), "palette-alpha.png", transparency=3)
    alpha = image.copy()
    alpha.putalpha(image.convert("L"))
    save("PNG, alpha", alpha, "alpha.png")
    # Pillow cuts 16 grey bits off at 255; right is the nearest of 256 steps.
    deep = (np.asarray(image.convert("L")).astype(np.uint32) * 257 + generator.integers(0, 100)).clip(0, 65535)
    rounded = Image.fromarray(np.floor(deep / 257 + 0.5).astype(np.uint8)).convert("RGB")
    save("PNG, 16 bits", Image.fromarray(deep.astype(np.uint16)), "deep.png", expected=rounded)
    save("WebP", image, "lossy.webp", quality=80)
    save("WebP, lossless", image, "lossless.webp", lossless=True)
    save("WebP, alpha", alpha, "alpha.webp", lossless=True, exact=True)
    return found


def test_decoding(program, directory, generator):
    for label, path, expected in files_of_every_kind(directory, generator):
        program.add(label, f"decode {path}", expected, 0)
    # A part at full size is exactly the part of the whole.
    for name in ("s0.jpg", "s1.jpg", "s2.jpg", "progressive.jpg", "grey.jpg", "cmyk.jpg", "rgb.png"):
        path = os.path.join(directory, name)
        whole = Image.open(path).convert("RGB")
        for _ in range(12):
            width, height = (int(n) for n in generator.integers(1, [whole.width + 1, whole.height + 1]))
            left = int(generator.integers(0, whole.width - width + 1))
            top = int(generator.integers(0, whole.height - height + 1))
            expected = whole.crop((left, top, left + width, top + height))
            program.add("part of a file", f"part {path} {left} {top} {width} {height} 400", expected, 0)
    # Half and a quarter as Pillow's draft, which asks the same library.
    for size, shrink in ((100, 2), (50, 4), (20, 8)):
        image = Image.open(os.path.join(directory, "s2.jpg"))
        image.draft("RGB", (301 // shrink, 203 // shrink))
        program.add("JPEG, scaled", f"part {os.path.join(directory, 's2.jpg')} 0 0 301 203 {size}", image, 0)
    # Parts of a scaled file are parts of the scaled whole.
    for subsampling, progressive in ((0, False), (1, False), (2, False), (2, True)):
        path = os.path.join(directory, f"large{subsampling}{progressive}.jpg")
        photograph(803, 605, generator.integers(2**32)).save(path, subsampling=subsampling, progressive=progressive)
        for shrink in (2, 4, 8):
            whole = Image.open(path)
            whole.draft("RGB", (803 // shrink, 605 // shrink))
            size = 200 // shrink
            for _ in range(6):
                width, height = (int(n) for n in generator.integers(200, [400, 400]))
                left, top = int(generator.integers(0, 803 - width)), int(generator.integers(0, 605 - height))
                box = (left // shrink, top // shrink, -(-(left + width) // shrink), -(-(top + height) // shrink))
                call = f"part {path} {left} {top} {width} {height} {size}"
                program.add("part of a scaled JPEG", call, whole.crop(box), 0)
    program.run()


def test_resizing(program, directory, generator):
    for i, (width, height) in enumerate(((500, 375), (333, 500), (64, 48), (7, 9), (1, 5))):
        path = os.path.join(directory, f"resize{i}.png")
        image = photograph(width, height, generator.integers(2**32)) if width > 7 else Image.effect_noise(
            (width, height), 60).convert("RGB")
        image.save(path)
        for _ in range(12):
            w, h = (int(n) for n in generator.integers(1, [width + 1, height + 1]))
            left, top = int(generator.integers(0, width - w + 1)), int(generator.integers(0, height - h + 1))
            to = (224, 224) if generator.random() < 0.5 else tuple(int(n) for n in generator.integers(1, 300, size=2))
            for name, resample in (("bicubic", Image.BICUBIC), ("bilinear", Image.BILINEAR)):
                expected = image.crop((left, top, left + w, top + h)).resize(to, resample)
                call = f"resize {path} {left} {top} {w} {h} {to[0]} {to[1]} {name}"
                program.add(f"resize, {name}", call, expected, 0)
        # Evaluation: the short side, then the middle.
        shorter = 256
        scaled = (shorter, shorter * height // width) if width <= height else (shorter * width // height, shorter)
        left, top = round((scaled[0] - 224) / 2), round((scaled[1] - 224) / 2)
        expected = image.resize(scaled, Image.BICUBIC).crop((left, top, left + 224, top + 224))
        program.add("the middle, for evaluation", f"middle {path} 224 0.875", expected, 1)
    program.run()


def affine(image, *matrix):
    return image.transform(image.size, Image.AFFINE, matrix, Image.BICUBIC, fillcolor=FILL)


def solarize_add(image, add):
    return image.point([min(255, i + add) if i < 128 else i for i in range(256)] * 3)


OPERATIONS = {  # what Pillow does, amounts, largest difference allowed
    "AutoContrast": (lambda image, _: ImageOps.autocontrast(image), [0], 0),
    "Equalize": (lambda image, _: ImageOps.equalize(image), [0], 0),
    "Invert": (lambda image, _: ImageOps.invert(image), [0], 0),
    "Posterize": (ImageOps.posterize, [0, 1, 2, 3, 4], 0),
    "Solarize": (ImageOps.solarize, [0, 1, 26, 128, 255, 256], 0),
    "SolarizeAdd": (solarize_add, [0, 11, 99, 110], 0),
    "Color": (lambda image, f: ImageEnhance.Color(image).enhance(f), [0.1, 0.19, 0.5, 1, 1.81, 1.9], 0),
    "Contrast": (lambda image, f: ImageEnhance.Contrast(image).enhance(f), [0.1, 0.19, 0.5, 1, 1.81, 1.9], 0),
    "Brightness": (lambda image, f: ImageEnhance.Brightness(image).enhance(f), [0.1, 0.19, 0.5, 1, 1.81, 1.9], 0),
    "Sharpness": (lambda image, f: ImageEnhance.Sharpness(image).enhance(f), [0.1, 0.19, 0.5, 1, 1.81, 1.9], 0),
    "Rotate": (lambda image, a: image.rotate(a, Image.BICUBIC, fillcolor=FILL), [-30, -26.9, -3, 1.5, 27.3, 30], 1),
    "ShearX": (lambda image, f: affine(image, 1, f, 0, 0, 1, 0), [-0.3, -0.27, 0.01, 0.27, 0.3], 1),
    "ShearY": (lambda image, f: affine(image, 1, 0, 0, f, 1, 0), [-0.3, -0.27, 0.01, 0.27, 0.3], 1),
    "TranslateX": (lambda image, p: affine(image, 1, 0, p, 0, 1, 0), [-100.8, -0.5, 3, 90.72], 1),
    "TranslateY": (lambda image, p: affine(image, 1, 0, 0, 0, 1, p), [-100.8, -0.5, 3, 90.72], 1),
}


def test_operations(program, directory, generator):
    images = [photograph(224, 224, generator.integers(2**32)) for _ in range(4)]
    images.append(photograph(61, 40, generator.integers(2**32)))
    images.append(Image.new("RGB", (32, 32), (10, 200, 30)))  # nothing to stretch
    images.append(images[0].resize((9, 9)))  # too few pixels to equalize
    images.append(images[1].point(lambda v: v // 5 + 90))  # poor in contrast
    for i, image in enumerate(images):
        path = os.path.join(directory, f"operation{i}.png")
        image.save(path)
        for name, (operation, amounts, most) in OPERATIONS.items():
            for amount in amounts:
                program.add(name, f"operation {name} {amount} {path}", operation(image, amount), most)
    program.run()


def test_what_is_written(program, directory, generator):
    path = os.path.join(directory, "written.png")
    image = photograph(150, 99, generator.integers(2**32))
    image.save(path)
    out = {form: os.path.join(directory, f"ours.{form}") for form in ("png", "jpeg")}
    text = "".join(f"{form} {path} {name}\n" for form, name in out.items())
    subprocess.run([program.path], input=text, text=True, check=True)
    assert np.array_equal(np.asarray(Image.open(out["png"])), np.asarray(image))
    image.save(os.path.join(directory, "theirs.jpeg"), quality=90)
    theirs = np.asarray(Image.open(os.path.join(directory, "theirs.jpeg")))
    assert np.array_equal(np.asarray(Image.open(out["jpeg"])), theirs)


def main(path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, Pillow {Image.__version__}")
    generator = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as directory:
        program = Program(path, directory)
        for test in (test_decoding, test_resizing, test_operations, test_what_is_written):
            test(program, directory, generator)


main(sys.argv[1])
