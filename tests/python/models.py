"""Small models with the layers that matter, and the shapes of three known ones."""
import torch
from torch import nn
from torch.nn import functional as F


class Mixed(nn.Module):
    """Convolution, linear, embedding, biases, and an output tied to the embedding.

    No spectral layer is square: the gradient of a square one can be nearly singular, where the exact solver promises a
    minimizer in the ball but not the digits of UV^T (docs/polar.md), and two correct programs may part.
    """

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3)
        self.hidden = nn.Linear(6 * 4, 8)
        self.embedding = nn.Embedding(12, 8)
        self.mix = nn.Linear(16, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, image, token):
        seen = torch.tanh(self.conv(image)).flatten(1)
        both = torch.cat([torch.tanh(self.hidden(seen)), self.embedding(token)], 1)
        return self.head(torch.tanh(self.mix(both)))


# For model.parameters(): conv.weight, conv.bias, hidden.weight, hidden.bias, embedding.weight, mix.weight, mix.bias.
MIXED_NORMS = ["spectral", "rms", "spectral", "rms", "sign", "spectral", "euclidean"]
MIXED_RADII = [1.0, 0.5, 1.5, 1.0, 20.0, 2.0, 0.7]


def mixed(dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return Mixed().to(dtype)


def mixed_groups(model, norms=MIXED_NORMS, radii=MIXED_RADII):
    return [{"params": [p], "norm": n, "radius": r} for p, n, r in zip(model.parameters(), norms, radii)]


class Batches:
    """A fixed sequence of random batches with the labels of a random teacher, so that there is something to learn and
    gradients keep their rank. Every token occurs in each batch, so that no gradient row is zero."""

    def __init__(self, dtype=torch.float64, seed=1, size=96):
        self.dtype, self.seed, self.size = dtype, seed, size
        self.teacher = mixed(seed=99)
        with torch.no_grad():
            for p in self.teacher.parameters():
                p.mul_(3)

    def __call__(self, k):
        random = torch.Generator().manual_seed(self.seed * 100003 + k)
        image = torch.randn(self.size, 2, 4, 4, generator=random, dtype=torch.float64)
        token = torch.arange(self.size) % 12
        with torch.no_grad():
            logits = self.teacher(image, token)
            noise = torch.rand(logits.shape, generator=random, dtype=torch.float64)
            target = (logits - (-noise.log()).log()).argmax(1)  # a draw from the teacher's softmax
        return image.to(self.dtype), token, target


def loss_of(model, batch):
    image, token, target = batch
    return F.cross_entropy(model(image, token), target)


def backward(model, batch):
    for p in model.parameters():
        p.grad = None
    loss = loss_of(model, batch)
    loss.backward()
    return loss


class Airbench(nn.Module):
    """The CIFAR-10 CNN of airbench: whitening, three blocks of two convolutions, a linear head."""

    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        blocks, channels = [], 24
        for width in (64, 256, 256):
            blocks.append(nn.Sequential(nn.Conv2d(channels, width, 3, padding="same", bias=False), nn.MaxPool2d(2),
                                        nn.BatchNorm2d(width), nn.GELU(),
                                        nn.Conv2d(width, width, 3, padding="same", bias=False), nn.BatchNorm2d(width),
                                        nn.GELU()))
            channels = width
        self.layers = nn.Sequential(*blocks)
        self.head = nn.Linear(256, 10, bias=False)

    def forward(self, x):
        return self.head(self.layers(F.gelu(self.whiten(x))).amax((2, 3)))


class GptBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})


class Gpt(nn.Module):
    """The parameters of nanoGPT, with the embedding tied to the head."""

    def __init__(self, vocabulary=256, width=32, blocks=2, positions=16, tied=True):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width), "wpe": nn.Embedding(positions, width),
            "h": nn.ModuleList([GptBlock(width) for _ in range(blocks)]), "ln_f": nn.LayerNorm(width)})
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.transformer["wte"].weight = self.lm_head.weight


class VitBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})


class Vit(nn.Module):
    """The parameters of a vision transformer as timm names them."""

    def __init__(self, width=48, blocks=2):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 5, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, 16, stride=16)})
        self.blocks = nn.ModuleList([VitBlock(width) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)
