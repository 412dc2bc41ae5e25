// Gradients of a program against central differences. Include it after graph.h.
#pragma once

extern "C++" {  // in a module unit too: functions that are defined elsewhere belong to no module
namespace engine_test {

/// The largest error of an analytic gradient against central differences in float64, and its position. The error of an
/// element is relative to the larger of both, and to 0.01 if both are smaller.
struct gradient_report {
  double worst = 0;
  std::string where;
};
inline constexpr double gradient_tolerance = 1e-6;

/// Differentiates the sum of all results of `build`, each element times a fixed random weight, with respect to every
/// float64 input: with all passes, with none, and in float32 (to 2e-3, reported scaled so that 2e-3 becomes 1e-6).
/// Inputs must stay 1e-3 away from kinks. Random operations draw other numbers in float32: leave it out for them.
/// The gradient is computed a second time from inputs with only the rank known, unless `build` needs extents.
enum class extents_known { both_ways, when_built };
gradient_report check_gradient(const std::vector<array>& in, const builder& build, bool also_float32 = true,
                               extents_known how_open = extents_known::both_ways);

/// The same for second order: differentiates the gradient of the sum of sin(y) over all results y of `build`.
gradient_report check_second_gradient(const std::vector<array>& in, const builder& build,
                                      extents_known how_open = extents_known::both_ways);

/// Both functions above record every operation between an input and a result, under its definition's name, with the
/// shapes of its operands; checks record the spelling or the layer that they test.
enum class noted { operation, spelling, layer };
void note(noted what, std::string_view name, const std::vector<array>& in, int order);
/// The cases that a gradient test must cover and has not compared yet: five shapes, among them one with an extent of 0,
/// one with an extent of 1, and, for elementwise operations of several operands, one that broadcasts. Empty if nothing
/// is missing.
struct demand {
  bool second_order = true, broadcast = false, size_0 = true;
};
std::string lacking(noted what, std::string_view name, const demand& d);

/// Distinct numbers, at least 0.02 apart and 0.005 away from 0, in an order that depends on the seed; `offset` shifts
/// them so that two arrays of offsets 0 and 0.01 have no number in common.
array distinct_array(const lamina::shape& dims, int seed, double offset = 0);

}  // namespace engine_test
}
