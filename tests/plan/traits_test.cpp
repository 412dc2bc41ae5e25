// Traits that a user's operation declares: the passes treat it like an operation of the library.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

struct map_arguments {
  const float *a, *b;
  float* out;
  std::int64_t count;
};

// A float32 operation with its own elementwise kernel.
template <class Op, int Operands> struct elementwise_of_user {
  static constexpr int operands = Operands;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, lamina::view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void run(const void* arguments, void*) noexcept {
    const auto& m = *static_cast<const map_arguments*>(arguments);
    for (std::int64_t i = 0; i < m.count; ++i) m.out[i] = Op::of(m.a[i], m.b ? m.b[i] : 0);
  }
  static void gradient(gradient_call& c) {
    c(0, [&] { return c.gradient(); });
  }
  static void emit(emission& e) {
    map_arguments m{nullptr, nullptr, nullptr, e.in_type(0).dims.size()};
    std::vector<address> where{{&m.a, e.in(0)}, {&m.out, e.out(0)}};
    if (Operands > 1) where.push_back({&m.b, e.in(1)});
    e.step(&run, m, where);
  }
};

struct mirror : elementwise_of_user<mirror, 1> {
  static constexpr std::string_view name = "mirror";
  static constexpr bool involution = true;
  static float of(float x, float) { return -x; }
};
struct watched : elementwise_of_user<watched, 1> {
  static constexpr std::string_view name = "watched";
  static constexpr auto identity = identity_rule::always;
  static float of(float x, float) { return x; }
};
struct same_as_given : elementwise_of_user<same_as_given, 2> {
  static constexpr std::string_view name = "same_as_given";
  static constexpr auto identity = identity_rule::if_types_agree;
  static constexpr unsigned shape_only = 2;
  static float of(float x, float) { return x; }
};
struct joined : elementwise_of_user<joined, 2> {
  static constexpr std::string_view name = "joined";
  static constexpr neutral_number neutral{0, true, true};
  static constexpr bool adds = true;
  static float of(float x, float y) { return x + y; }
};
struct limited : elementwise_of_user<limited, 1> {
  static constexpr std::string_view name = "limited";
  static std::optional<value_bounds> bounds(lamina::view<const std::optional<double>>) {
    return value_bounds{-0.5, 0.5};
  }
  static float of(float x, float) { return x < -0.5f ? -0.5f : x > 0.5f ? 0.5f : x; }
};
struct barrier : elementwise_of_user<barrier, 1> {
  static constexpr std::string_view name = "barrier";
  static constexpr bool stops_gradient = true;
  static float of(float x, float) { return x; }
};
// The same without any traits.
struct silent_mirror : elementwise_of_user<silent_mirror, 1> {
  static constexpr std::string_view name = "silent_mirror";
  static float of(float x, float) { return -x; }
};

// The second half of the first axis.
struct second_half {
  static constexpr std::string_view name = "second_half";
  static constexpr int operands = 1;
  static constexpr bool keeps_elements = true;
  using attributes = no_attributes;
  static constexpr axis_view part_of(const attributes&, const shape& whole) {
    return {0, whole.at(0) - whole.at(0) / 2, whole.at(0) / 2};
  }
  static constexpr void infer(const attributes&, lamina::view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    s[0] = s[0].is_number() ? dim(s.at(0) / 2) : dim(dyn);
    out.result(in[0].element, s);
  }
  static void run(const void* arguments, void*) noexcept {
    const auto& m = *static_cast<const map_arguments*>(arguments);
    for (std::int64_t i = 0; i < m.count; ++i) m.out[i] = m.a[i + m.count];
  }
  static void emit(emission& e) {
    map_arguments m{nullptr, nullptr, nullptr, e.out_type(0).dims.size()};
    e.step(&run, m, {{&m.a, e.in(0)}, {&m.out, e.out(0)}});
  }
};

// A state with one element incremented; it may be written in place of the state.
struct raised {
  static constexpr std::string_view name = "raised";
  static constexpr int operands = 1, updates = 0;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, lamina::view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void run(const void* arguments, void*) noexcept {
    const auto& m = *static_cast<const map_arguments*>(arguments);
    for (std::int64_t i = 0; i < m.count; ++i) m.out[i] = m.a[i] + (i == 0);
  }
  static void emit(emission& e) {
    map_arguments m{nullptr, nullptr, nullptr, e.out_type(0).dims.size()};
    e.step(&run, m, {{&m.a, e.in(0)}, {&m.out, e.out(0)}});
  }
};
struct silent_raised : raised {
  static constexpr std::string_view name = "silent_raised";
  static constexpr int updates = -1;
};

// All traits of the library's activations: flops, parallel pieces, samples that merge, and images in channel blocks,
// in which it keeps zeros zero.
struct bent {
  static constexpr std::string_view name = "bent";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, lamina::view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static double flops(const attributes&, lamina::view<const tensor_type>, lamina::view<const tensor_type> out) {
    return 3 * static_cast<double>(out[0].dims.size());
  }
  static void map_axis(const attributes&, axis_map& m) { m.elementwise(); }
  static image_layouts images(const image_call& c) { return {.result = c.blocked, .operand = c.blocked}; }
  static void gradient(gradient_call& c) {
    c(0, [&] { return c.gradient() * square(1 - abs(c.result())); });
  }
  static void run(const void* arguments, void*) noexcept {
    const auto& m = *static_cast<const map_arguments*>(arguments);
    for (std::int64_t i = 0; i < m.count; ++i) m.out[i] = m.a[i] / (1 + (m.a[i] < 0 ? -m.a[i] : m.a[i]));
  }
  static void emit(emission& e) {
    const auto from = e.in(0), to = e.out(0);
    emission::cut(e.stored(from, e.in_type(0)), 3, [&](std::int64_t first, std::int64_t count) {
      map_arguments m{nullptr, nullptr, nullptr, count};
      e.step(&run, m, {{&m.a, from.at(first * 4)}, {&m.out, to.at(first * 4)}});
    });
  }
};

template <class Op, class... V> value call(const V&... v) { return apply<Op>({}, v...); }

// Returns the plan after checking its results against those without any pass.
std::shared_ptr<const plan> planned(const std::vector<array>& in,
                                    const std::function<value(const std::vector<value>&)>& build,
                                    double tolerance = 0) {
  small_graph g;
  std::vector<value> x;
  for (const auto& a : in) x.push_back(g.input(a));
  g.output(build(x));
  const auto with = g.run()[0], without = g.run(no_passes)[0];
  BOOST_CHECK_LE(distance(with, without), tolerance);
  g.run();
  return g.plan;
}
array real(const shape& s, int seed) { return random_array(dtype::float32, s, seed); }

}  // namespace

BOOST_AUTO_TEST_SUITE(traits)

BOOST_AUTO_TEST_CASE(an_involution_undoes_itself) {
  auto twice = [](const auto& x) { return call<mirror>(call<mirror>(x[0])) * 2; };
  BOOST_TEST(lines_with(*planned({real({50}, 1)}, twice), "mirror") == 0u);
  BOOST_TEST(planned({real({50}, 1)}, twice)->counters().of(rewrite::double_inverse) == 1);
  BOOST_TEST(lines_with(*planned({real({50}, 1)},
                                 [](const auto& x) { return call<silent_mirror>(call<silent_mirror>(x[0])) * 2; }),
                        "silent_mirror") == 2u);
}

BOOST_AUTO_TEST_CASE(an_identity_goes) {
  BOOST_TEST(lines_with(*planned({real({50}, 1)}, [](const auto& x) { return call<watched>(x[0]) * 2; }), "watched") ==
             0u);
  BOOST_TEST(lines_with(*planned({real({50}, 1), real({50}, 2)},
                                 [](const auto& x) { return call<same_as_given>(x[0], x[1]) * 2; }),
                        "same_as_given") == 0u);
}

BOOST_AUTO_TEST_CASE(a_neutral_number_goes) {
  auto constant = [](const value& x, float v) {
    any_tensor t(tensor_type{dtype::float32, {50}});
    for (int i = 0; i < 50; ++i) reinterpret_cast<float*>(t.mutable_data())[i] = v;
    return x.owner().constant(t);
  };
  BOOST_TEST(
      lines_with(*planned({real({50}, 1)}, [&](const auto& x) { return call<joined>(x[0], constant(x[0], 0)) * 2; }),
                 "joined") == 0u);
  BOOST_TEST(
      lines_with(*planned({real({50}, 1)}, [&](const auto& x) { return call<joined>(constant(x[0], 0), x[0]) * 2; }),
                 "joined") == 0u);
  BOOST_TEST(
      lines_with(*planned({real({50}, 1)}, [&](const auto& x) { return call<joined>(x[0], constant(x[0], 1)) * 2; }),
                 "joined") == 1u);
}

BOOST_AUTO_TEST_CASE(a_product_ends_with_it) {
  auto layer = [](const auto& x) { return call<limited>(call<joined>(matmul(x[0], x[1]), x[2])); };
  const auto p = planned({real({8, 16}, 1), real({16, 24}, 2), real({8, 24}, 3)}, layer, 1e-6);
  BOOST_TEST(p->counters().fused_epilogues == 2);
  BOOST_TEST(p->lines().size() == 1u);
}

BOOST_AUTO_TEST_CASE(its_flops_and_pieces) {
  const array x = real({250, 1000}, 1);
  std::vector<array> results;
  for (const int threads : {1, 2}) {
    small_graph g;
    g.output(call<bent>(g.input(x)));
    results.push_back(g.run({.parallel = true}, threads)[0]);
    BOOST_TEST(g.plan->cost().flops == 7.5e5);
    BOOST_TEST_REQUIRE(g.plan->lines().size() == 1u);
    BOOST_TEST(g.plan->lines()[0].steps == 4u);
  }
  BOOST_TEST(same_bits(results[0], results[1]));
  for (std::size_t i = 0; i < x.values.size(); ++i)
    BOOST_REQUIRE(std::abs(results[0].values[i] - x.values[i] / (1 + std::abs(x.values[i]))) < 1e-7);
}

BOOST_AUTO_TEST_CASE(samples_merge) {
  const matrix<float> w{{1, 2}, {3, 4}}, x{{1, -2}}, y{{3, 4}, {-5, 6}};
  const auto f = [&](const matrix<float>& m) { return apply<bent>({}, matmul(m, w)); };
  eval_plan samples;
  const auto a = samples.add(f(x)), b = samples.add(f(y));
  samples.run();
  BOOST_TEST(samples.counters().merged == 2);
  const auto elements = [](const matrix<float>& m) { return from_tensor(any_tensor(m)); };
  BOOST_TEST(same_bits(elements(a.value()), elements(evaluate(f(x)))));
  BOOST_TEST(same_bits(elements(b.value()), elements(evaluate(f(y)))));
}

// Between convolutions whose channels fill whole blocks, or do not.
BOOST_AUTO_TEST_CASE(it_lies_in_channel_blocks) {
  const auto net = [](small_graph& g, std::int64_t channels, value (*f)(const value&)) {
    const value w = g.state("w", random_array(dtype::float32, {channels, 3, 3, 3}, 1, -1, 1));
    const value again = g.state("again", random_array(dtype::float32, {channels, channels, 3, 3}, 2, -1, 1));
    g.output(conv2d(f(conv2d(g.input(real({2, 3, 9, 9}, 3)), w)), again));
  };
  const auto reorders = [&](std::int64_t channels, value (*f)(const value&)) {
    array results[2];
    std::size_t count = 0;
    for (const bool blocked : {false, true}) {
      small_graph g;
      net(g, channels, f);
      results[blocked] = g.run({.blocked_layout = blocked})[0];
      count = g.plan->cost().reorders;
      for (const auto& l : g.plan->lines())
        if (l.what == "bent") BOOST_TEST((l.form == (blocked ? layout::blocked : layout::plain)));
    }
    BOOST_TEST(distance(results[0], results[1]) < 2e-5);
    return count;
  };
  for (const std::int64_t channels : {32, 24, 21})
    BOOST_TEST(reorders(channels, [](const value& x) -> value { return call<bent>(x); }) ==
               reorders(channels, [](const value& x) -> value { return tanh(x); }));
}

BOOST_AUTO_TEST_CASE(a_part_is_a_view) {
  auto tail = [](const auto& x) { return tanh(call<second_half>(x[0])); };
  const auto p = planned({real({10, 7}, 1)}, tail);
  BOOST_TEST(lines_with(*p, "second_half") == 0u);
  BOOST_TEST(p->cost().arena == 0u);
}

BOOST_AUTO_TEST_CASE(no_gradient_flows_through_it) {
  small_graph g;
  const auto x = g.input(real({5}, 1));
  const auto gradient = gradients(g.p, std::vector{reduce_sum(call<barrier>(x) + x * 3)}, {}, std::vector{x});
  g.output(gradient[0]);
  const auto results = g.run();
  for (double v : results[0].values) BOOST_TEST(v == 3);
}

BOOST_AUTO_TEST_CASE(a_state_is_updated_in_place) {
  auto arena_of = [](auto op) {
    small_graph g;
    const auto s = g.state("s", real({1000}, 1));
    const auto next = call<typename decltype(op)::type>(s);
    g.p.assign(s, next);
    const double before = g.now("s").values[0];
    g.run();
    g.run();
    BOOST_TEST(g.now("s").values[0] == static_cast<double>(static_cast<float>(before) + 1 + 1));
    return g.plan->cost().arena;
  };
  BOOST_TEST(arena_of(std::type_identity<raised>()) == 0u);
  BOOST_TEST(arena_of(std::type_identity<silent_raised>()) >= 4000u);
}

BOOST_AUTO_TEST_SUITE_END()
