"""Training steps in PyTorch, with the nets of training/lamina.cpp.

    torch_training.py lenet|mlp|wide_mlp|gru|transformer|resnet|resnet18|mobilenet --threads N --seconds S

Prints JSON: seconds of a step, and the most that the resident set grew by since PyTorch was imported. Optimizers are the fused
ones, and nets of images are measured in both layouts, of which the faster one counts."""
import argparse
import json
import time

import torch
from torch import nn

CLASSES, SYMBOLS = 10, 256


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES))


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, CLASSES))


def wide_mlp():
    return nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, CLASSES))


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(64, 64, batch_first=True), nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.head(self.gru(x)[0])


class Transformer(nn.Module):
    def __init__(self, width=128, length=64):
        super().__init__()
        block = nn.TransformerEncoderLayer(width, 4, 512, dropout=0, activation="gelu", norm_first=True, batch_first=True)
        self.embedding = nn.Embedding(SYMBOLS, width)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, SYMBOLS)
        self.mask = nn.Transformer.generate_square_subsequent_mask(length)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embedding(x), self.mask, is_causal=True)))


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.beside = nn.Identity() if stride == 1 else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                                      nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu_(self.bn1(self.conv1(x)))
        return torch.relu_(self.bn2(self.conv2(y)) + self.beside(x))


def resnet():
    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
                         *(ResidualBlock(*pair) for pair in zip(widths, widths[1:])), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, CLASSES))


def resnet18():
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
                         *(ResidualBlock(*pair) for pair in zip(widths, widths[1:])), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, CLASSES))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, expansion, stride):
        super().__init__()
        wide = inputs * expansion
        self.layers = nn.Sequential(nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
                                    nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide),
                                    nn.ReLU6(inplace=True), nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.adds = inputs == outputs and stride == 1

    def forward(self, x):
        return self.layers(x) + x if self.adds else self.layers(x)


def mobilenet():
    blocks = [(32, 16, 1, 1), (16, 24, 6, 1), (24, 24, 6, 1), (24, 32, 6, 2), (32, 32, 6, 1), (32, 64, 6, 2), (64, 64, 6, 1),
              (64, 96, 6, 1), (96, 160, 6, 2), (160, 160, 6, 1)]
    return nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(inplace=True),
                         *(InvertedResidual(*b) for b in blocks), nn.Conv2d(160, 640, 1, bias=False), nn.BatchNorm2d(640),
                         nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(640, CLASSES))


def reals(*shape):
    return 2 * torch.rand(shape) - 1


def adam(parameters):
    return torch.optim.Adam(parameters, 1e-3, fused=True)


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.01, momentum=0.9, fused=True)


# A net, a batch, its targets and the optimizer.
NETS = {
    "lenet": (lenet, lambda: (reals(128, 1, 28, 28), torch.randint(CLASSES, (128,))), adam),
    "mlp": (mlp, lambda: (reals(64, 784), torch.randint(CLASSES, (64,))), adam),
    "wide_mlp": (wide_mlp, lambda: (reals(64, 512), torch.randint(CLASSES, (64,))), adam),
    "gru": (Gru, lambda: (reals(32, 32, 64), torch.randint(CLASSES, (32, 32))), adam),
    "transformer": (Transformer, lambda: (torch.randint(SYMBOLS, (16, 64)), torch.randint(SYMBOLS, (16, 64))), adam),
    "resnet": (resnet, lambda: (reals(32, 3, 32, 32), torch.randint(CLASSES, (32,))), sgd),
    "resnet18": (resnet18, lambda: (reals(16, 3, 64, 64), torch.randint(CLASSES, (16,))), sgd),
    "mobilenet": (mobilenet, lambda: (reals(32, 3, 32, 32), torch.randint(CLASSES, (32,))), sgd),
}


def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def measured(name, seconds, memory_format=torch.contiguous_format):
    """Seconds of steps, the first loss, the number of parameters."""
    make, batch, optimizer = NETS[name]
    net, (x, y) = make(), batch()
    if x.dim() == 4:
        net, x = net.to(memory_format=memory_format), x.to(memory_format=memory_format)
    loss_of, rule = nn.CrossEntropyLoss(), optimizer(net.parameters())

    def step():
        rule.zero_grad(set_to_none=True)
        results = net(x)
        loss = loss_of(results.reshape(-1, results.shape[-1]), y.reshape(-1))
        loss.backward()
        rule.step()
        return loss.item()

    first = step()
    step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    times.sort()
    return {"least": times[0], "median": times[len(times) // 2], "loss": first,
            "parameters": sum(p.numel() for p in net.parameters())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=NETS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--channels-last", action="store_true", help="images as [N, H, W, C] in memory")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as peak:  # the peak begins again
        peak.write("5")
    one = measured(a.net, a.seconds, torch.channels_last if a.channels_last else torch.contiguous_format)
    print(json.dumps({"version": torch.__version__.split("+")[0], "bytes": status("VmHWM") - before, **one}))


if __name__ == "__main__":
    main()
