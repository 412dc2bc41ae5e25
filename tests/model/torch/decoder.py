"""Writes PyTorch's results for operations of decoders and for a small decoder, with which torch_test.cpp compares.

    python decoder.py        (needs torch and safetensors; writes decoder.safetensors and vectors.safetensors into this folder)
"""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

FEATURES, HEADS, KEY_HEADS, HIDDEN, TOKENS, LENGTH = 16, 4, 2, 24, 11, 40


def half_rotated(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rope(x, positions, base=10000.0):
    """Pairs (i, i + depth / 2), as in Hugging Face's Llama."""
    depth = x.shape[-1]
    frequency = base ** (-torch.arange(0, depth, 2, dtype=torch.float64) / depth)
    angle = torch.outer(positions.double(), frequency).repeat(1, 2)
    return x * angle.cos().to(x.dtype) + half_rotated(x) * angle.sin().to(x.dtype)


def rope_of_neighbours(x, positions, base=10000.0):
    """Pairs (2 i, 2 i + 1) as complex numbers, as in Llama's original code."""
    depth = x.shape[-1]
    frequency = base ** (-torch.arange(0, depth, 2, dtype=torch.float64) / depth)
    turn = torch.polar(torch.ones(()).double(), torch.outer(positions.double(), frequency))
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        depth = FEATURES // HEADS
        self.q_proj = nn.Linear(FEATURES, HEADS * depth, bias=False)
        self.k_proj = nn.Linear(FEATURES, KEY_HEADS * depth, bias=False)
        self.v_proj = nn.Linear(FEATURES, KEY_HEADS * depth, bias=False)
        self.o_proj = nn.Linear(HEADS * depth, FEATURES, bias=False)

    def forward(self, x):
        def heads(y):
            return y.unflatten(-1, (-1, FEATURES // HEADS)).transpose(1, 2)
        at = torch.arange(x.shape[1])
        y = F.scaled_dot_product_attention(rope(heads(self.q_proj(x)), at), rope(heads(self.k_proj(x)), at),
                                           heads(self.v_proj(x)), is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(FEATURES, HIDDEN, bias=False)
        self.up_proj = nn.Linear(FEATURES, HIDDEN, bias=False)
        self.down_proj = nn.Linear(HIDDEN, FEATURES, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Residual(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.body = nn.Sequential(*parts)

    def forward(self, x):
        return x + self.body(x)


def norm():
    layer = nn.RMSNorm(FEATURES, eps=1e-5)
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    return layer


def decoder():
    def layer():
        return nn.Sequential(Residual(norm(), Attention()), Residual(norm(), SwiGLU()))
    return nn.Sequential(nn.Embedding(TOKENS, FEATURES), layer(), layer(), norm(), nn.Linear(FEATURES, TOKENS))


def main():
    torch.manual_seed(1)
    out = {}

    q, k, v = torch.randn(2, 4, 5, 6), torch.randn(2, 2, 7, 6), torch.randn(2, 2, 7, 3)
    seen, added = torch.rand(2, 1, 5, 7) < 0.7, torch.randn(5, 7)
    seen[..., 0] = True
    out |= {"q": q, "k": k, "v": v, "seen": seen, "added": added}
    out["attention"] = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    out["attention_seen"] = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    out["attention_added"] = F.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=0.3, enable_gqa=True)
    out["attention_causal"] = F.scaled_dot_product_attention(q, k[:, :, :5], v[:, :, :5], is_causal=True, enable_gqa=True)

    at = torch.tensor([0, 1, 2, 1000, 77])
    out |= {"at": at, "rope": rope(q, at), "rope_of_neighbours": rope_of_neighbours(q, at, 500.0)}
    weight = torch.randn(6)
    out |= {"weight": weight, "rms_norm": F.rms_norm(q, (6,), weight, 1e-5)}

    net = decoder()
    parameters = {name: value.detach().clone() for name, value in net.state_dict().items()}
    tokens = torch.randint(0, TOKENS, (1, LENGTH + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    out |= {"inputs": inputs, "targets": targets, "logits": net(inputs).detach()}
    step, losses = torch.optim.SGD(net.parameters(), lr=0.5), []
    for _ in range(6):
        loss = F.cross_entropy(net(inputs).flatten(0, 1), targets.flatten())
        losses.append(loss.item())
        step.zero_grad()
        loss.backward()
        step.step()
    out["losses"] = torch.tensor(losses, dtype=torch.float64)

    folder = pathlib.Path(__file__).parent
    made_by = {"made by": f"decoder.py, PyTorch {torch.__version__.split('+')[0]}"}
    save_file(parameters, folder / "decoder.safetensors", made_by)
    save_file({name: value.clone(memory_format=torch.contiguous_format) for name, value in out.items()}, folder / "vectors.safetensors", made_by)
    print(losses)


if __name__ == "__main__":
    main()
