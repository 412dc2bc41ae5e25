// Networks, data sets and comparisons for the tests of models and training. Include it after `import lamina;` and
// <boost/test/unit_test.hpp>, <cstring>, <string>, <vector>.
#pragma once

#include "squares.h"

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

/// Numbers in [-1, 1) that depend only on the seed and the position.
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

/// The error that a call raises with its message: "shape_error: ...", or "" if it raises none.
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

}  // namespace nets_test
