"""Tokens a second of the decoder of decode/lamina.cpp in PyTorch, in float32 with a cache of keys and values.

    torch_decoding.py --threads N --seconds S

Prints JSON."""
import argparse
import json
import time

import torch
from torch.nn import functional as F

WIDTH, LAYERS, HEADS, HIDDEN, TOKENS, ROOM = 512, 8, 8, 1408, 4096, 256


def weight(rows, columns):
    return torch.randn(rows, columns) / columns**0.5


def rotated(x, cosine, sine):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1)


class Layer:
    def __init__(self):
        self.qkv, self.out = weight(3 * WIDTH, WIDTH), weight(WIDTH, WIDTH)
        self.gate_up, self.down = weight(2 * HIDDEN, WIDTH), weight(WIDTH, HIDDEN)
        self.norms = [torch.ones(WIDTH), torch.ones(WIDTH)]
        self.keys, self.values = (torch.randn(1, HEADS, ROOM, WIDTH // HEADS) for _ in range(2))

    def __call__(self, x, at, angles):
        q, k, v = (part.view(1, HEADS, 1, -1) for part in F.linear(F.rms_norm(x, (WIDTH,), self.norms[0]), self.qkv).chunk(3, -1))
        self.keys[:, :, at : at + 1] = rotated(k, *angles)
        self.values[:, :, at : at + 1] = v
        y = F.scaled_dot_product_attention(rotated(q, *angles), self.keys[:, :, : at + 1], self.values[:, :, : at + 1])
        x = x + F.linear(y.view(1, WIDTH), self.out)
        gate, up = F.linear(F.rms_norm(x, (WIDTH,), self.norms[1]), self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    layers, norm, head, x, at = [Layer() for _ in range(LAYERS)], torch.ones(WIDTH), weight(TOKENS, WIDTH), torch.randn(1, WIDTH), ROOM - 1
    angle = at * 10000.0 ** (-torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
    angles = angle.cos(), angle.sin()

    def token():
        y = x
        for layer in layers:
            y = layer(y, at, angles)
        return F.linear(F.rms_norm(y, (WIDTH,), norm), head)

    with torch.inference_mode():
        times, end = [], time.perf_counter() + a.seconds
        while len(times) < 5 or time.perf_counter() < end:
            begin = time.perf_counter()
            token()
            times.append(time.perf_counter() - begin)
    print(json.dumps({"version": torch.__version__.split("+")[0], "tokens": 1 / min(times)}))


if __name__ == "__main__":
    main()
