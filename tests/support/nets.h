// Networks, data sets and comparisons for the tests of models and training. Include it after `import lamina;` and
// <boost/test/unit_test.hpp>, <cstring>, <string>, <vector>.
#pragma once

namespace nets_test {

inline constexpr auto lenet =
    lamina::sequential(lamina::nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2},
                       lamina::nn::relu{}, lamina::nn::max_pool2d{.kernel_size = 2},
                       lamina::nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, lamina::nn::relu{},
                       lamina::nn::max_pool2d{.kernel_size = 2}, lamina::nn::flatten{},
                       lamina::nn::linear{.in_features = 400, .out_features = 120}, lamina::nn::relu{},
                       lamina::nn::linear{.in_features = 120, .out_features = 84}, lamina::nn::relu{},
                       lamina::nn::linear{.in_features = 84, .out_features = 10});

using images = lamina::tensor<float, lamina::extents<lamina::dyn, 1, 28, 28>>;

/// Numbers in [-1, 1) that depend on the seed and the position alone.
template <class Tensor> Tensor random_tensor(const lamina::shape& dims, int seed) {
  auto t = Tensor::uninitialized(dims);
  lamina::philox stream(seed, 5);
  auto out = t.writable();
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<typename Tensor::element_type>(2 * stream.uniform<double>(i) - 1);
  return t;
}

template <class A, class B> bool same_bits(const A& a, const B& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data().data(), b.data().data(), a.data().size() * sizeof(a.data()[0])) == 0;
}
/// Equal parameters, running statistics, optimizer slots and generators, bit by bit.
inline bool same_bits(const lamina::parameter_store& a, const lamina::parameter_store& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto* other = b.find(a[i].name());
    if (!other || a[i].value().type() != other->value().type()) return false;
    if (std::memcmp(a[i].value().data(), other->value().data(), a[i].value().bytes()) != 0) return false;
  }
  return true;
}

/// Which error a call raises, and what it says: "shape_error: ...", or "" if it raises none.
template <class F> std::string error_of(F f) {
  try {
    f();
  } catch (const lamina::shape_error& e) {
    return std::string("shape_error: ") + e.what();
  } catch (const lamina::value_error& e) {
    return std::string("value_error: ") + e.what();
  } catch (const lamina::file_error& e) {
    return std::string("file_error: ") + e.what();
  } catch (const lamina::error& e) { return std::string("error: ") + e.what(); }
  return {};
}
inline bool holds(const std::string& s, std::string_view part) {
  if (s.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE("`" << s << "` does not say `" << part << "`");
  return false;
}

/// Images [1 x 6 x 6] of three classes that differ in the place of a bright square, under noise.
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
