// Checks one gradient. Include it after gradient_check.h and Boost.Test.
#pragma once

namespace engine_test {

inline void check(std::string_view name, const std::vector<array>& in, const builder& build, bool also_float32 = true,
                  extents_known how_open = extents_known::both_ways) {
  std::string shapes;
  for (const auto& a : in) shapes += " " + a.shape().string();
  note(noted::spelling, name, in, 1);
  auto report = check_gradient(in, build, also_float32, how_open);
  BOOST_CHECK_MESSAGE(report.worst < gradient_tolerance,
                      name << shapes << ": error " << report.worst << ", " << report.where);
}
/// First and second order.
inline void check_twice(std::string_view name, const std::vector<array>& in, const builder& build,
                        bool also_float32 = true, extents_known how_open = extents_known::both_ways) {
  check(name, in, build, also_float32, how_open);
  note(noted::spelling, name, in, 2);
  auto report = check_second_gradient(in, build, how_open);
  BOOST_CHECK_MESSAGE(report.worst < gradient_tolerance, name << " of " << in[0].shape().string() << " twice: error "
                                                              << report.worst << ", " << report.where);
}
inline array real(const lamina::shape& s, int seed, double low = -2, double high = 2) {
  return random_array(lamina::dtype::float64, s, seed, low, high);
}
using values = std::vector<lamina::ir::value>;

}  // namespace engine_test
