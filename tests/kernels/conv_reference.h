// Convolutions and their gradients as plain loops in a wider type, with the sum of absolute terms beside each result.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernel_test.h"

namespace conv_reference {

using lamina::kernels::window;

template <class T> using wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
inline std::size_t at(long i) { return static_cast<std::size_t>(i); }

/// Fills in the size of the result.
inline window sized(window w) {
  w.out_height = (w.height + 2 * w.pad_h + w.more_h - w.dilation_h * (w.kernel_h - 1) - 1) / w.stride_h + 1;
  w.out_width = (w.width + 2 * w.pad_w + w.more_w - w.dilation_w * (w.kernel_w - 1) - 1) / w.stride_w + 1;
  return w;
}
inline bool fits(const window& w) {
  return w.height + 2 * w.pad_h + w.more_h > w.dilation_h * (w.kernel_h - 1) &&
         w.width + 2 * w.pad_w + w.more_w > w.dilation_w * (w.kernel_w - 1);
}

inline std::string name(const window& w) {
  std::string text;
  for (const long x :
       {w.channels, w.height, w.width, w.out_channels, w.out_height, w.out_width, w.kernel_h, w.kernel_w, w.stride_h,
        w.stride_w, w.pad_h, w.pad_w, w.dilation_h, w.dilation_w, w.groups, w.more_h, w.more_w})
    text += std::to_string(x) + " ";
  return text;
}

inline long in_size(const window& w) { return w.channels * w.height * w.width; }
inline long out_size(const window& w) { return w.out_channels * w.out_height * w.out_width; }
inline long weight_size(const window& w) { return w.out_channels * (w.channels / w.groups) * w.kernel_h * w.kernel_w; }

/// A sum and the sum of its absolute terms.
template <class T> struct sums {
  std::vector<wide<T>> value, magnitude;
  std::vector<long> terms;
  explicit sums(long count) : value(at(count)), magnitude(at(count)), terms(at(count)) {}
  void add(long i, wide<T> a, wide<T> b) {
    value[at(i)] += a * b;
    magnitude[at(i)] += std::abs(a * b);
    ++terms[at(i)];
  }
};

/// The first position of a result, and one past the last, whose tap at `offset` from its window's first lies inside.
struct span_of_results {
  long first, end;
  span_of_results(long offset, long stride, long inputs, long results)
      : first(offset < 0 ? (-offset + stride - 1) / stride : 0),
        end(offset >= inputs ? 0 : std::min(results, (inputs - 1 - offset) / stride + 1)) {}
};

/// Calls use(result, input, weight) with the three positions of every product of one image: a tap at a time over all
/// results, so that the compiler vectorizes the innermost loop.
template <class Use> void each_product(const window& w, Use use) {
  const long ins = w.channels / w.groups, outs = w.out_channels / w.groups;
  for (long o = 0; o < w.out_channels; ++o)
    for (long c = 0; c < ins; ++c)
      for (long i = 0; i < w.kernel_h; ++i)
        for (long j = 0; j < w.kernel_w; ++j) {
          const long above = i * w.dilation_h - w.pad_h, left = j * w.dilation_w - w.pad_w;
          const span_of_results rows(above, w.stride_h, w.height, w.out_height);
          const span_of_results columns(left, w.stride_w, w.width, w.out_width);
          const long weight = ((o * ins + c) * w.kernel_h + i) * w.kernel_w + j;
          for (long y = rows.first; y < rows.end; ++y) {
            const long result = (o * w.out_height + y) * w.out_width;
            const long input = ((o / outs * ins + c) * w.height + y * w.stride_h + above) * w.width + left;
            for (long x = columns.first; x < columns.end; ++x) use(result + x, input + x * w.stride_w, weight);
          }
        }
}

/// Number of results that are wrong.
template <class T> long mismatches(const T* actual, const sums<T>& expected, long extra_terms = 4) {
  long count = 0;
  for (std::size_t i = 0; i < expected.value.size(); ++i)
    if (!kernel_test::close(actual[i], expected.value[i], expected.magnitude[i], expected.terms[i] + extra_terms))
      ++count;
  return count;
}

}  // namespace conv_reference
