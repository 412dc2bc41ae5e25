// Gradients of a program against central differences. Include it after graph.h.
#pragma once

extern "C++" {  // in a unit of a module too: what is defined elsewhere belongs to no module
namespace engine_test {

/// The largest error of an analytic gradient against central differences in float64, and where it is. The error of an
/// element is relative to the larger of both, and to 0.01 below that.
struct gradient_report {
  double worst = 0;
  std::string where;
};
inline constexpr double gradient_tolerance = 1e-6;

/// Differentiates the sum of all results of `build`, each element times a fixed random weight, with respect to every
/// float64 input: with all passes, with none, and in float32 (to 2e-3, reported as 1e-6 where it is just met).
/// Inputs must stay 1e-3 away from kinks. Random operations draw other numbers in float32: leave it out for them.
/// The gradient is found a second time from inputs of which only the rank is known, unless `build` needs numbers.
enum class extents_known { both_ways, when_built };
gradient_report check_gradient(const std::vector<array>& in, const builder& build, bool also_float32 = true,
                               extents_known how_open = extents_known::both_ways);

/// The same for the gradient: what is differentiated is the gradient of the sum of sin(y) over all results y of `build`.
gradient_report check_second_gradient(const std::vector<array>& in, const builder& build,
                                      extents_known how_open = extents_known::both_ways);

/// Both functions above note every operation that stands between an input and a result, under the name that its definition
/// has, with the shapes of its operands; checks note the spelling or the layer they are about.
enum class noted { operation, spelling, layer };
void note(noted what, std::string_view name, const std::vector<array>& in, int order);
/// What has not been compared so far of what a test of gradients has to: five shapes, among them one with an extent of 0,
/// one with an extent of 1, and one where operands broadcast if elements of several are combined one by one. Empty if
/// nothing lacks.
struct demand {
  bool second_order = true, broadcast = false, size_0 = true;
};
std::string lacking(noted what, std::string_view name, const demand& d);

/// Distinct numbers, at least 0.02 apart and 0.005 away from 0, in an order that depends on the seed; `offset` shifts
/// them so that two arrays of offsets 0 and 0.01 have no number in common.
array distinct_array(const lamina::shape& dims, int seed, double offset = 0);

}  // namespace engine_test
}
