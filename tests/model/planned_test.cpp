// Memory of a plan: reported before a run, and named in out_of_memory.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

constexpr auto wide = sequential(nn::linear{.in_features = 4, .out_features = 50000, .bias = false});
using wide_type = model<wide, input<"N", 4>>;
using wide_factory = reference_factory<wide, input<"N", 4>>;
using rows = matrix<float, dyn, 4>;
constexpr std::int64_t count = 3;
constexpr std::size_t result_bytes = count * 50000 * sizeof(float), block_head = 64;

// While alive, limits memory to little more than the present use.
struct short_of_memory {
  const std::int64_t limit = memory::counters().current + 100000;
  short_of_memory() { memory::limit(limit); }
  ~short_of_memory() { memory::limit(0); }
};
// The out_of_memory that f raises.
template <class F> std::unique_ptr<out_of_memory> lack_of(const F& f) {
  const short_of_memory now;
  try {
    f();
  } catch (const out_of_memory& e) {
    BOOST_TEST(e.limit() == now.limit);
    return std::make_unique<out_of_memory>(e);
  }
  BOOST_FAIL("no error");
  return {};
}
bool tells_what_is_planned(const out_of_memory& e) {
  return std::string(e.what()).find("; the plan needs ") != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(planned)

BOOST_AUTO_TEST_CASE(a_result_that_meets_the_limit_names_the_plan) {
  wide_type net({.seed = 1});
  const wide_factory factory(net);
  auto ref = factory.create();
  auto origin = factory.origin();
  const auto x = random_tensor<rows>({count, 4}, 1);
  const std::size_t planned = ref.planned({{count, 4}});
  BOOST_TEST(planned > 0u);
  const auto check = [&](const auto& f) {
    f();  // everything but the result is allocated now
    const auto e = lack_of(f);
    BOOST_TEST((e->requested() >= result_bytes && e->requested() <= result_bytes + block_head));
    BOOST_TEST(e->planned() == planned);
    BOOST_TEST_CONTEXT(e->what()) BOOST_TEST(tells_what_is_planned(*e));
    f();
  };
  check([&] { net(x); });
  check([&] { ref(x); });
  check([&] { origin(x); });
  program_factory programs(net.core().inference_program(), net.parameters());
  auto one = programs.create();
  BOOST_TEST(one.planned({{count, 4}}) == planned);
  const any_tensor in[] = {x};
  check([&] { one(in); });
}

BOOST_AUTO_TEST_CASE(an_arena_that_meets_the_limit_names_it_too) {
  const reference_factory<lenet, input<"N", 1, 28, 28>> factory(model<lenet, input<"N", 1, 28, 28>>({.seed = 1}));
  auto first = factory.create(), second = factory.create();
  const auto x = random_tensor<images>({64, 1, 28, 28}, 1);
  const std::size_t planned = first.planned({{64, 1, 28, 28}});
  BOOST_TEST(planned > 200000u);
  const auto e = lack_of([&] { second(x); });
  BOOST_TEST(e->planned() == planned);
  BOOST_TEST(e->requested() >= planned - 64);
  BOOST_TEST(tells_what_is_planned(*e));
  const reference_factory<lenet, input<"N", 1, 28, 28>> pooled(model<lenet, input<"N", 1, 28, 28>>({.seed = 1}),
                                                               {.arenas = std::make_shared<arena_pool>(50000)});
  auto third = pooled.create();
  BOOST_CHECK_EXCEPTION(third(x), out_of_memory,
                        [&](const out_of_memory& lack) { return lack.planned() == planned && lack.limit() == 50000; });
}

BOOST_AUTO_TEST_CASE(segments_and_plans_of_many_results_name_theirs) {
  auto p = std::make_shared<program>();
  const value x = p->input("x", {dtype::float32, {"N"}});
  p->output("kept", masked_select(x, x > 0));
  p->output("all", x + 1.0f);
  program_factory factory(p, parameter_store());
  auto ref = factory.create();
  const any_tensor in[] = {random_tensor<lamina::vector<float>>({200000}, 1)};
  BOOST_TEST((ref(in)[1].shape() == shape({200000})));
  BOOST_TEST(ref.planned({{200000}}) == 0u);  // each segment is planned alone
  BOOST_TEST(lack_of([&] { ref(in); })->planned() > 0u);
  BOOST_TEST((ref(in)[1].shape() == shape({200000})));

  const auto a = random_tensor<matrix<float>>({300, 400}, 2);
  eval_plan many;
  const auto sum = many.add(a + a);
  const auto e = lack_of([&] { many.run(); });
  BOOST_TEST(e->requested() >= 300u * 400u * sizeof(float));
  BOOST_TEST(e->planned() > 0u);
  many.run();
  BOOST_TEST(same_bits(sum.value(), evaluate(a + a)));
  // Allocation before there is a plan.
  BOOST_TEST(lack_of([&] { evaluate(a + a); })->planned() == 0u);
  BOOST_TEST(lack_of([] { matrix<float>(1000, 1000); })->planned() == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_planned_ahead_is_no_miss_later) {
  const wide_factory factory{wide_type({.seed = 1})};
  auto ref = factory.create(), other = factory.create();
  const auto bytes = ref.planned({{count, 4}});
  BOOST_TEST(factory.plans().statistics().builds == 1);
  BOOST_TEST(other.planned({{count, 4}}) == bytes);
  ref(random_tensor<rows>({count, 4}, 1));
  BOOST_TEST(factory.plans().statistics().builds == 1);
  BOOST_TEST(error_of([&] { ref.planned({{count, 5}}); }).starts_with("shape_error: "));
}

BOOST_AUTO_TEST_SUITE_END()
