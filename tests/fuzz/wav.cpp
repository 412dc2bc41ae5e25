// WAV files: a sound that loads has no more samples than the file has bytes, and is the same after writing it as floats
// and reading it.
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "examine.h"
#include "scratch.h"

import lamina;

void examine(const unsigned char* data, unsigned long size) {
  static const scratch_folder folder;
  static const std::string path = folder / "a.wav";
  try {
    const auto w = lamina::decode_wav({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    const auto samples = w.samples.data();
    if (samples.size() > size || w.channels() < 1 || w.rate < 1) std::abort();
    for (float x : samples)
      if (!std::isfinite(x)) return;  // not writable
    if (w.channels() > 16000) return;
    lamina::write_wav(path, w, lamina::wav_format::float32);
    const auto back = lamina::read_wav(path);
    if (back.rate != w.rate || back.channels() != w.channels() || back.frames() != w.frames()) std::abort();
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (back.samples.data()[i] != samples[i]) std::abort();
  } catch (const lamina::file_error&) {
  } catch (const lamina::unsupported_error&) {}
}
