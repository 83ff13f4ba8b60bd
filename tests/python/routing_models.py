"""The same models as in tests/normball_torch/module_routing_test.cpp: explain() must give the tables in tests/normball_torch/routing_fixture."""
import torch
from torch import nn


class Net(nn.Module):
    """Children and parameters in the order given."""

    def __init__(self, **members):
        super().__init__()
        for name, member in members.items():
            setattr(self, name, nn.Parameter(torch.zeros(*member)) if isinstance(member, tuple) else member)


def mlp():
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn():
    return Net(rgb=nn.Conv2d(3, 8, 3), depth=nn.Conv2d(1, 8, 3), norm=nn.BatchNorm2d(16), mix=nn.Conv2d(16, 32, 3),
               fc=nn.Linear(32, 10))


def convolutions():
    return Net(stem=nn.Conv2d(3, 16, 3, bias=False), dw=nn.Conv2d(16, 16, 3, groups=16),
               point=nn.Conv2d(16, 32, 1, bias=False), grouped=nn.Conv1d(32, 32, 3, groups=4),
               up=nn.ConvTranspose2d(32, 8, 2), up_dw=nn.ConvTranspose2d(8, 8, 2, groups=8), head=nn.Linear(8, 5))


def gpt(embedding, tied=False, head=True):
    def block():
        return Net(ln_1=nn.LayerNorm(16), qkv=nn.Linear(16, 48), proj=nn.Linear(16, 16), ln_2=nn.LayerNorm(16),
                   up=nn.Linear(16, 64), down=nn.Linear(64, 16))

    tokens = nn.Embedding(50, 16)
    model = Net(**{embedding: tokens}, wpe=nn.Embedding(8, 16), h=nn.ModuleList([block(), block()]),
                ln_f=nn.LayerNorm(16))
    if head:
        model.lm_head = nn.Linear(16, 50, bias=False)
    if tied:
        model.lm_head.weight = tokens.weight
    return model


def tied_after_fc():
    """The layer before a tied head has a name that heads have, too."""
    model = Net(wte=nn.Embedding(20, 8), fc=nn.Linear(8, 8), lm_head=nn.Linear(8, 20, bias=False))
    model.lm_head.weight = model.wte.weight
    return model


def lstm():
    return Net(encoder=nn.Embedding(50, 8), rnn=nn.LSTM(8, 12, num_layers=2), decoder=nn.Linear(12, 50))


def experts():
    return Net(gate=nn.Linear(8, 4), experts=Net(up=(4, 32, 8), down=(4, 8, 32)), head=nn.Linear(8, 3))


def weight_normed():
    """Weight normalization as it is kept: a gain and a direction."""
    return Net(conv=Net(weight_g=(8, 1, 1, 1), weight_v=(8, 3, 3, 3), bias=(8,)),
               dense=Net(weight_g=(16, 1), weight_v=(16, 8)), classifier=nn.Linear(16, 4))


def two_heads():
    return Net(body=nn.Linear(10, 64), more=nn.Linear(64, 64), policy=nn.Linear(64, 4), value=nn.Linear(64, 1))


def head_first():
    return Net(a=nn.Linear(64, 10), b=nn.Linear(30, 64), c=nn.Linear(64, 64))


def attention():
    return nn.MultiheadAttention(8, 2, add_bias_kv=True)


def encoder():
    return nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)


def bag():
    return Net(words=nn.EmbeddingBag(50, 8), mix=nn.Linear(8, 8), act=nn.PReLU(), scores=nn.Linear(8, 3))


def vgg():
    return Net(features=nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3)),
               classifier=nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10)))


def vit():
    return Net(cls_token=(1, 1, 16), pos_embed=(1, 5, 16), patch_embed=Net(proj=nn.Conv2d(3, 16, 4, stride=4)),
               norm=nn.LayerNorm(16), head=nn.Linear(16, 10))


QKV = {"*.qkv.weight": dict(split=3, lr=0.002)}
# name: (model, rules)
CASES = {
    "mlp": (mlp, {}), "cnn": (cnn, {}), "convolutions": (convolutions, {}),
    "gpt_tied": (lambda: gpt("wte", tied=True), QKV), "gpt_untied": (lambda: gpt("tokens"), QKV),
    "gpt_without_head": (lambda: gpt("tokens", head=False), {}), "lstm": (lstm, {}), "experts": (experts, {}),
    "weight_normed": (weight_normed, {}), "two_heads": (two_heads, {}), "head_first": (head_first, {}),
    "attention": (attention, {}), "encoder": (encoder, {}), "bag": (bag, {}), "vgg": (vgg, {}), "vit": (vit, {}),
    "tied_after_fc": (tied_after_fc, {})}
