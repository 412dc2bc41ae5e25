"""Writes the expected results of audio_test: audio_vectors.py audio.npz

Reimplements in float64 NumPy: librosa.stft, librosa.filters.mel, librosa.power_to_db, scipy.fft.dct(norm="ortho"), and a
resampler with a Kaiser window that sums sample by sample.
"""
import math
import sys

import numpy as np

RATE, LENGTH, WINDOW, STEP, BANDS, COEFFICIENTS = 8000, 256, 200, 80, 20, 13


def signal():
    t = np.arange(1200) / RATE
    chirp = np.sin(2 * np.pi * (200 * t + 4000 * t * t))
    noise = np.random.default_rng(1).standard_normal(t.size)
    return (0.5 * np.sin(2 * np.pi * 440 * t) + 0.25 * chirp + 0.01 * noise).astype(np.float32)


def power(x, center, exponent=2):
    """librosa.stft with a Hann window of WINDOW samples in the middle of LENGTH, frames in rows."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    left = (LENGTH - WINDOW) // 2
    window = np.pad(window, (left, LENGTH - WINDOW - left))
    sides = (LENGTH // 2, LENGTH // 2) if center else (left, LENGTH - WINDOW - left)
    x = np.pad(x.astype(np.float64), sides)
    frames = [x[i:i + LENGTH] * window for i in range(0, x.size - LENGTH + 1, STEP)]
    return np.abs(np.fft.rfft(frames, axis=1)) ** exponent


def mel_filters(htk, normalized, low, high):
    """librosa.filters.mel, transposed."""
    if htk:
        to_mel = lambda f: 2595 * np.log10(1 + f / 700)
        to_hertz = lambda m: 700 * (10 ** (m / 2595) - 1)
    else:
        to_mel = lambda f: np.where(f < 1000, f * 3 / 200, 15 + np.log(np.maximum(f, 1) / 1000) * 27 / np.log(6.4))
        to_hertz = lambda m: np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))
    edges = to_hertz(np.linspace(to_mel(np.float64(low)), to_mel(np.float64(high)), BANDS + 2))
    f = np.arange(LENGTH // 2 + 1) * RATE / LENGTH
    weights = np.zeros((f.size, BANDS))
    for b in range(BANDS):
        rise = (f - edges[b]) / (edges[b + 1] - edges[b])
        fall = (edges[b + 2] - f) / (edges[b + 2] - edges[b + 1])
        weights[:, b] = np.maximum(0, np.minimum(rise, fall))
        if normalized:
            weights[:, b] *= 2 / (edges[b + 2] - edges[b])
    return weights


def dct(x):
    """scipy.fft.dct(x, norm="ortho") along the last axis."""
    n = x.shape[-1]
    k, i = np.meshgrid(np.arange(n), np.arange(n))
    m = np.cos(np.pi * k * (2 * i + 1) / (2 * n)) * np.where(k == 0, np.sqrt(1 / n), np.sqrt(2 / n))
    return x @ m


def resampled(x, rate, to, crossings=24, rolloff=0.945, beta=9.0):
    scale = min(1, to / rate) * rolloff
    half = crossings / scale
    made = np.zeros(-(-x.size * to // rate))
    for i in range(made.size):
        center = i * rate / to
        for k in range(max(0, math.ceil(center - half)), min(x.size - 1, math.floor(center + half)) + 1):
            d = center - k
            if abs(d) < half:
                made[i] += float(x[k]) * scale * np.sinc(scale * d) * np.i0(beta * math.sqrt(1 - (d / half) ** 2)) / np.i0(beta)
    return made


x = signal()
power_mel = power(x, True) @ mel_filters(False, True, 0, RATE / 2)
decibels = 10 * np.log10(np.maximum(1e-10, power_mel))
clipped = np.maximum(decibels, decibels.max() - 80)
np.savez_compressed(
    sys.argv[1], signal=x, power=power(x, True).astype(np.float32), magnitude=power(x, False, 1).astype(np.float32),
    slaney=mel_filters(False, True, 0, RATE / 2), htk=mel_filters(True, False, 50, 3500), mel=power_mel.astype(np.float32),
    log_mel=np.log(np.maximum(1e-10, power_mel)).astype(np.float32), mfcc=dct(clipped)[:, :COEFFICIENTS].astype(np.float32),
    up=resampled(x[:400], RATE, 11025).astype(np.float32), down=resampled(x[:400], RATE, 3000).astype(np.float32))
