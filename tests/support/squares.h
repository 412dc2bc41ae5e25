// A data set for the tests of training. Include it after `import lamina;`.
#pragma once

namespace nets_test {

/// Images [1 x 6 x 6] of three classes that differ in the position of a bright square, with noise.
inline lamina::image_dataset squares(std::int64_t n, int seed) {
  lamina::image_dataset::images_type bytes(n, 1, 6, 6);
  lamina::vector<std::int64_t> labels(n);
  lamina::philox stream(seed, 7);
  auto out = bytes.writable();
  auto classes = labels.writable();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto c = i % 3;
    classes[static_cast<std::size_t>(i)] = c;
    for (std::int64_t y = 0; y < 6; ++y)
      for (std::int64_t x = 0; x < 6; ++x) {
        const auto at = static_cast<std::size_t>((i * 6 + y) * 6 + x);
        const bool bright = y / 2 == c && x / 2 == c;
        out[at] = static_cast<std::uint8_t>((bright ? 150 : 0) + 100 * stream.uniform<double>(at));
      }
  }
  return {bytes, labels, {"first", "second", "third"}, {.mean = 0.3, .deviation = 0.25}};
}

}  // namespace nets_test
