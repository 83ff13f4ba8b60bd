"""Images per second, decoded and augmented on one thread, against Pillow and NumPy doing the same:

    compare_pillow.py build/release/tests/image_values [--rounds N]

Each round times both in turn on the same files: photographs of ImageNet's usual size (500 x 375) and of a camera's
(2000 x 1500), made as in tests/trainer/images/pictures.py. The operations are those of DeiT: random resized crop to
224 (bicubic), flip, two of RandAugment's operations with probability 1/2 each, normalization, random erasing 0.25.
"""

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "trainer", "images"))
from pictures import photograph  # noqa: E402

FILL = (124, 116, 104)
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)[:, None, None]
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)[:, None, None]


def crop(image):
    width, height = image.size
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if w <= width and h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return image.crop((left, top, left + w, top + h)).resize((224, 224), Image.BICUBIC)
    return image.resize((224, 224), Image.BICUBIC)


def affine(image, *matrix):
    return image.transform(image.size, Image.AFFINE, matrix, Image.BICUBIC, fillcolor=FILL)


def sign():
    return random.choice((-1, 1))


OPERATIONS = [
    lambda image, m: ImageOps.autocontrast(image),
    lambda image, m: ImageOps.equalize(image),
    lambda image, m: ImageOps.invert(image),
    lambda image, m: image.rotate(sign() * 3 * m, Image.BICUBIC, fillcolor=FILL),
    lambda image, m: ImageOps.posterize(image, 4 - int(0.4 * m)),
    lambda image, m: ImageOps.solarize(image, 256 - int(25.6 * m)),
    lambda image, m: image.point([min(255, i + int(11 * m)) if i < 128 else i for i in range(256)] * 3),
    lambda image, m: ImageEnhance.Color(image).enhance(max(0.1, 1 + sign() * 0.09 * m)),
    lambda image, m: ImageEnhance.Contrast(image).enhance(max(0.1, 1 + sign() * 0.09 * m)),
    lambda image, m: ImageEnhance.Brightness(image).enhance(max(0.1, 1 + sign() * 0.09 * m)),
    lambda image, m: ImageEnhance.Sharpness(image).enhance(max(0.1, 1 + sign() * 0.09 * m)),
    lambda image, m: affine(image, 1, sign() * 0.03 * m, 0, 0, 1, 0),
    lambda image, m: affine(image, 1, 0, 0, sign() * 0.03 * m, 1, 0),
    lambda image, m: affine(image, 1, 0, sign() * 0.045 * m * 224, 0, 1, 0),
    lambda image, m: affine(image, 1, 0, 0, 0, 1, sign() * 0.045 * m * 224),
]


def erase(pixels, generator):
    for _ in range(10):
        area = 224 * 224 * random.uniform(0.02, 1 / 3)
        ratio = math.exp(random.uniform(math.log(0.3), -math.log(0.3)))
        h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if w < 224 and h < 224:
            top, left = random.randint(0, 224 - h), random.randint(0, 224 - w)
            pixels[:, top : top + h, left : left + w] = generator.standard_normal((3, h, w), dtype=np.float32)
            return


def by_pillow(path, count, generator):
    for _ in range(count):
        image = crop(Image.open(path).convert("RGB"))
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        for operation in random.choices(OPERATIONS, k=2):
            if random.random() < 0.5:
                image = operation(image, min(10, max(0, random.gauss(9, 0.5))))
        pixels = np.asarray(image).transpose(2, 0, 1).astype(np.float32)
        pixels = (pixels / 255 - MEAN) / STD
        if random.random() < 0.25:
            erase(pixels, generator)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        for width, height, count in ((500, 375, 200), (2000, 1500, 30)):
            path = os.path.join(directory, "photograph.jpg")
            photograph(width, height, 5).save(path, quality=90)
            process = subprocess.Popen([arguments.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            ours, theirs = [], []
            for _ in range(arguments.rounds):
                # The answer to a second call says that the first is done.
                start = time.perf_counter()
                process.stdin.write(f"train {path} {count}\namount Rotate 9 0 224\n")
                process.stdin.flush()
                process.stdout.readline()
                ours.append(count / (time.perf_counter() - start))
                start = time.perf_counter()
                by_pillow(path, count, generator)
                theirs.append(count / (time.perf_counter() - start))
            process.stdin.close()
            process.wait()
            ratios = [a / b for a, b in zip(ours, theirs)]
            print(
                f"{width}x{height}: {statistics.median(ours):.0f} images/s, Pillow {Image.__version__} "
                f"{statistics.median(theirs):.0f}; ratio {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f} in {arguments.rounds} rounds)"
            )


main()
