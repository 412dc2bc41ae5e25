// The host's generator against the kernels of random fills: equal uniform bits, normal numbers within rounding.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reduce.h"

import lamina;

namespace {

const lamina::kernels::random_functions& functions() { return lamina::kernels::random_of(lamina::target_isa()); }

template <class T> void check_agreement() {
  const std::int64_t state[] = {0x123456789abcdef, (std::int64_t(3) << 32) + 5};
  lamina::philox stream(lamina::random_state{state[0], state[1]}, 9);
  const std::uint64_t first = 1000;
  std::vector<T> out(777);
  lamina::kernels::random_args args{state, out.data(), static_cast<long>(first), static_cast<long>(out.size()), 9,
                                    0,     1};
  constexpr int form = sizeof(T) == 8;
  functions().uniform[form](&args, nullptr);
  for (std::size_t i = 0; i < out.size(); ++i) BOOST_REQUIRE_EQUAL(out[i], stream.uniform<T>(first + i));
  functions().normal[form](&args, nullptr);
  for (std::size_t i = 0; i < out.size(); ++i)
    BOOST_REQUIRE_SMALL(out[i] - stream.normal<T>(first + i), 16 * std::numeric_limits<T>::epsilon());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_agreement)

BOOST_AUTO_TEST_CASE(fills_of_float_agree) { check_agreement<float>(); }
BOOST_AUTO_TEST_CASE(fills_of_double_agree) { check_agreement<double>(); }

BOOST_AUTO_TEST_SUITE_END()
