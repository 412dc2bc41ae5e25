// Errors of the float functions: within the bounds of docs/accuracy.md, which says how they were measured, and reaching
// them.
//
// A run takes each 257th float where functions bend and each 16411th elsewhere; `kernel_accuracy_test -- --step 1` takes
// all 2^32 and prints the table's numbers. With a step, every set of the machine is measured against one computation of the
// references, unless LAMINA_ISA names one; `--only exp` takes a single function.
#include "kernel_test.h"

#include <optional>
#include <string>

#include "float_error.h"

using namespace lamina::kernels;

namespace {

/// Largest error in ulps, rounded up, and the argument that has it.
struct bound {
  double units;
  float at;
};
struct function {
  const char* name;
  map_op op;
  double (*exact)(double);
  bound of[3];  // for sse2, avx2, avx512
};
constexpr function functions[] = {
    {"exp", map_op::exp, float_error::exp, {{0.99, -5.85617256f}, {0.93, -87.745491f}, {0.99, -22.0294838f}}},
    {"log", map_op::log, float_error::log, {{0.89, 1.49894643f}, {0.88, 1.4772718f}, {0.99, 1.12217391f}}},
    {"tanh", map_op::tanh, float_error::tanh, {{1.04, 0.882713318f}, {0.75, 1.85955286f}, {1.01, 0.031038234f}}},
    {"sigmoid",
     map_op::sigmoid,
     float_error::sigmoid,
     {{1.87, -1.11377251f}, {1.87, -1.94717765f}, {1.52, -0.0295050703f}}},
    {"erf", map_op::erf, float_error::erf, {{1.04, 1.05664229f}, {0.82, 0.147157848f}, {2.11, 0.00172749883f}}},
    {"expm1", map_op::expm1, float_error::expm1, {{1.48, 0.350020915f}, {1.44, 17.0019722f}, {1.44, 17.0019722f}}},
    {"log1p",
     map_op::log1p,
     float_error::log1p,
     {{1.44, -8.94069672e-08f}, {1.44, -8.94069672e-08f}, {1.49, 0.111094989f}}},
    {"softplus",
     map_op::softplus,
     float_error::softplus,
     {{1.99, -2.03030992f}, {2.51, -2.01842642f}, {2.87, -2.74705982f}}},
    {"gelu", map_op::gelu, float_error::gelu, {{0.51, -2.76880908f}, {3.27, -0.33874619f}, {2.56, -11.0318747f}}},
    {"gelu_tanh",
     map_op::gelu_tanh,
     float_error::gelu_tanh,
     {{0.51, -2.53490543f}, {3.68, -3.72723842f}, {3.79, -1.82451451f}}},
    {"silu", map_op::silu, float_error::silu, {{3.20, -7.62205172f}, {3.72, -3.24960685f}, {3.91, -7.57566404f}}},
    {"mish", map_op::mish, float_error::mish, {{4.71, -6.78301191f}, {4.95, -5.95486689f}, {4.91, -6.76985073f}}},
};

map_function function_of(isa set, map_op op) { return map_of(set, op, element::f32); }
float result_of(map_op op, float x) {
  float y = 0;
  function_of(kernel_test::tested(), op)(&x, nullptr, nullptr, &y, 1, 1);
  return y;
}

/// The bound of an instruction set; for NEON, which this machine only emulates, the largest of the others.
double units_of(const function& f, isa set) {
  if (set != isa::neon64) return f.of[static_cast<int>(set)].units;
  return std::max({f.of[0].units, f.of[1].units, f.of[2].units});
}

/// The value after an option on the command line.
std::optional<std::string> argument(std::string_view option) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  for (int i = 1; i + 1 < suite.argc; ++i)
    if (suite.argv[i] == option) return suite.argv[i + 1];
  return {};
}
float_error::steps steps_of_run() {
  const auto given = argument("--step");
  if (!given) return {257, 16411};
  const std::uint64_t step = std::strtoull(given->c_str(), nullptr, 10);
  return {step, step};
}
std::vector<isa> sets_of_run() {
  if (!argument("--step") || std::getenv("LAMINA_ISA")) return {kernel_test::tested()};
  std::vector<isa> sets;
  for (const isa set : {isa::sse2, isa::avx2, isa::avx512})
    if (kernel_test::usable(set)) sets.push_back(set);
  return sets.empty() ? std::vector{kernel_test::tested()} : sets;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(accuracy)

BOOST_AUTO_TEST_CASE(errors_are_those_of_the_definition) {
  BOOST_TEST(float_error::error_of(1.5f, 1.5) == 0);
  BOOST_TEST(float_error::error_of(1.5f + 0x1p-23f, 1.5) == 1);
  BOOST_TEST(float_error::error_of(0x1p-149f, 0) == 1);
  BOOST_TEST(float_error::error_of(INFINITY, 0x1p128) == 0);
  BOOST_TEST(float_error::error_of(INFINITY, 1) > 1e9);
  BOOST_TEST(float_error::error_of(NAN, 1) > 1e9);
  BOOST_TEST(float_error::error_of(1, std::nan("")) > 1e9);
  BOOST_TEST(float_error::error_of(NAN, std::nan("")) == 0);
  // a sweep finds a single wrong float among those that it visits
  const auto wrong = [](const float* in, float* out, long n) {
    for (long i = 0; i < n; ++i) out[i] = in[i] == 0x1p60f ? 0 : in[i];
  };
  const auto found = float_error::sweep([](double x) { return x; }, {wrong, {}}, {1 << 12, 1 << 12});
  BOOST_TEST(found[0].error == 0x1p23);
  BOOST_TEST(found[0].at == 0x1p60f);
  BOOST_TEST(found[1].error == 0);
}

BOOST_AUTO_TEST_CASE(bounds_hold) {
  const float_error::steps each = steps_of_run();
  BOOST_TEST_REQUIRE(each.near > 0u);
  const std::vector<isa> sets = sets_of_run();
  const auto only = argument("--only");
  for (const function& f : functions) {
    if (only && *only != f.name) continue;
    std::vector<float_error::function> runs;
    for (const isa set : sets)
      runs.push_back(
          [&, set](const float* in, float* out, long n) { function_of(set, f.op)(in, nullptr, nullptr, out, n, 1); });
    const auto met = float_error::sweep(f.exact, runs, each);
    for (std::size_t i = 0; i < sets.size(); ++i) {
      std::printf("%-10s %-6s %.4f units at %.9g\n", f.name, isa_names[static_cast<int>(sets[i])], met[i].error,
                  static_cast<double>(met[i].at));
      BOOST_CHECK_MESSAGE(met[i].error <= units_of(f, sets[i]), f.name << ": " << met[i].error << " units at "
                                                                       << met[i].at << ", not "
                                                                       << units_of(f, sets[i]));
    }
    std::fflush(stdout);
  }
}

// The bounds are tight: a function reaches its bound at the stated argument.
BOOST_AUTO_TEST_CASE(bounds_are_reached) {
  if (kernel_test::tested() == isa::neon64) return;
  for (const function& f : functions) {
    const bound& b = f.of[static_cast<int>(kernel_test::tested())];
    const double met = float_error::error_of(result_of(f.op, b.at), f.exact(static_cast<double>(b.at)));
    BOOST_CHECK_MESSAGE(met <= b.units && met > b.units - 0.0101,
                        f.name << ": " << met << " units at " << b.at << ", not " << b.units);
  }
}

// Functions of the form x * factor: a zero result has the sign of x.
BOOST_AUTO_TEST_CASE(tails_and_zeros) {
  for (const map_op op : {map_op::gelu, map_op::gelu_tanh, map_op::silu, map_op::mish}) {
    for (const float x : {-INFINITY, -3e38f, -1000.f, -120.f, -0.f}) {
      const float y = result_of(op, x);
      BOOST_TEST((y == 0 && std::signbit(y)));
    }
    BOOST_TEST((result_of(op, 0.f) == 0 && !std::signbit(result_of(op, 0.f))));
    for (const float x : {120.f, 1000.f, 3e38f, INFINITY}) BOOST_TEST(result_of(op, x) == x);
    BOOST_TEST(std::isnan(result_of(op, NAN)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
