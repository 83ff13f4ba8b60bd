"""Pictures with the spectrum, the edges and the colours of photographs, from a seed."""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter


def photograph(width, height, seed):
    generator = np.random.default_rng(seed)
    ys, xs = np.mgrid[0:height, 0:width]
    frequencies = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :])
    frequencies[0, 0] = 1
    layers = []
    for _ in range(3):  # amplitudes fall with frequency, as in nature
        noise = np.fft.fft2(generator.normal(size=(height, width))) / frequencies**1.1
        layer = np.real(np.fft.ifft2(noise))
        layers.append((layer - layer.mean()) / layer.std())
    mixing = np.array([[0.8, 0.2, 0.1], [0.75, -0.1, 0.15], [0.7, -0.25, -0.2]])
    pixels = np.stack(layers, axis=-1) @ mixing.T * 40 + generator.uniform(70, 170, size=3)
    pixels += ((ys / height - 0.5) * generator.uniform(-60, 60))[:, :, None]  # light from above
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = generator.integers(0, [width, height])
        w, h = generator.integers(3, [max(4, width // 3), max(4, height // 3)])
        colour = tuple(int(c) for c in generator.integers(0, 256, size=3))
        getattr(draw, "ellipse" if generator.random() < 0.5 else "rectangle")([x, y, x + w, y + h], fill=colour)
    return image.filter(ImageFilter.GaussianBlur(0.6))
