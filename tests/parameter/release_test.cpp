// Elements of parameters are freed while a packed form holds them, unless a plan reads them unpacked; unpacking
// restores every bit.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using builder_of_one = std::function<value(const value& x, const value& w)>;

struct product {
  tensor_type x, w;
  builder_of_one build;
  int bits = 8;  // of int8 weights
};

std::vector<isa> sets_of_machine() {
  std::vector<isa> all;
  for (isa set : instruction_sets)
    if (machine_has(set)) all.push_back(set);
  return all;
}

// Elements of every kind: numbers, zeros of both signs, subnormal numbers, infinities, and a NaN with a payload.
any_tensor elements_of_every_kind(const tensor_type& type, int bits = 8) {
  any_tensor made = to_tensor(random_array(type.element, type.dims, 3));
  const auto place = [&]<class T>(T) {
    using limits = std::numeric_limits<T>;
    const T odd[] = {T(0),
                     T(-0.0),
                     limits::denorm_min(),
                     -limits::min() / 4,
                     limits::infinity(),
                     -limits::infinity(),
                     limits::quiet_NaN()};
    auto* to = reinterpret_cast<T*>(made.mutable_data());
    for (std::int64_t i = 0; i < type.dims.size(); i += 5) to[i] = odd[(i / 5) % 7];
  };
  if (type.element == dtype::int8) {
    auto* to = reinterpret_cast<std::int8_t*>(made.mutable_data());
    for (std::int64_t i = 0; i < type.dims.size(); ++i) to[i] = static_cast<std::int8_t>(to[i] >> (8 - bits));
    return made;
  }
  if (type.element == dtype::float32) place(float());
  else place(double());
  return made;
}

program program_of(const product& one) {
  program p;
  p.output("y", one.build(p.input("x", one.x), p.state("w", one.w)));
  return p;
}

// Whether the elements were freed; unpacks and compares them.
bool released_and_restored(const product& one, isa set) {
  const program p = program_of(one);
  const any_tensor weights = elements_of_every_kind(one.w, one.bits);
  parameter_store store;
  parameter& w = store.add("w", weights.copy(), state_role::parameter);
  w.releasable();
  executor run(make_plan(p, std::vector{one.x.dims}, set), &store);
  const bool released = !w.value().data();
  const any_tensor copy = parameter_store(store)[0].value();
  BOOST_TEST(std::memcmp(copy.data(), weights.data(), weights.bytes()) == 0);
  w.restore();
  BOOST_REQUIRE(w.value().data());
  BOOST_TEST(std::memcmp(w.value().data(), weights.data(), weights.bytes()) == 0);
  return released;
}
tensor_type floats(const shape& s) { return {dtype::float32, s}; }

value convolved(const value& x, const value& w, const conv2d_attributes& a) { return conv2d(x, w, a); }

}  // namespace

BOOST_AUTO_TEST_SUITE(released_elements)

BOOST_AUTO_TEST_CASE(products_give_back_what_they_packed) {
  for (const isa set : sets_of_machine())
    for (const dtype element : {dtype::float32, dtype::float64})
      for (const std::int64_t k : {1, 7, 64, 300})
        for (const std::int64_t n : {2, 16, 33, 130}) {
          const tensor_type x{element, {3, k}};
          const auto plain = [](const value& a, const value& b) { return matmul(a, b); };
          const auto transposed = [](const value& a, const value& b) { return matmul(a, b, {.transpose_b = true}); };
          BOOST_TEST(released_and_restored({x, {element, {k, n}}, plain}, set));
          BOOST_TEST(released_and_restored({x, {element, {n, k}}, transposed}, set));
        }
}

BOOST_AUTO_TEST_CASE(convolutions_give_back_what_they_packed) {
  for (const isa set : sets_of_machine()) {
    const auto padded = [](const value& x, const value& w) { return convolved(x, w, {.padding = 1}); };
    for (const std::int64_t in : {3, 16, 20})
      for (const std::int64_t out : {16, 24, 40})
        BOOST_TEST(released_and_restored({floats({1, in, 9, 9}), floats({out, in, 3, 3}), padded}, set));
    const auto depthwise = [](const value& x, const value& w) { return convolved(x, w, {.padding = 1, .groups = 48}); };
    BOOST_TEST(released_and_restored({floats({1, 48, 9, 9}), floats({48, 1, 3, 3}), depthwise}, set));
    const auto grouped = [](const value& x, const value& w) { return convolved(x, w, {.padding = 1, .groups = 3}); };
    BOOST_TEST(released_and_restored({floats({1, 96, 9, 9}), floats({48, 32, 3, 3}), grouped}, set));
  }
}

// Packed int8 weights are stored with their sums, as bytes or 16-bit words. Weights that are converted, to floats or for
// Winograd convolutions, which depends on the processor, are kept.
BOOST_AUTO_TEST_CASE(int8_products_give_back_what_they_packed) {
  const auto as = [](const value& v) {
    return quantization{v.owner().number(0.02, dtype::float32), v.owner().number(3., dtype::int8)};
  };
  const auto bias = [](const value& w, std::int64_t channels) {
    return w.owner().constant(any_tensor({dtype::int32, {channels}}));
  };
  const auto numbers = [](const shape& s) { return tensor_type{dtype::int8, s}; };
  for (const isa set : sets_of_machine()) {
    for (const std::int64_t k : {1, 2, 7, 64, 257, 300})
      for (const std::int64_t n : {2, 16, 33, 130})
        for (const auto& [transposed, bits] :
             {std::pair(false, 8), std::pair(true, 8), std::pair(false, 7), {false, 6}}) {
          const auto linear = [&](const value& x, const value& w) {
            return quantized_linear(x, as(x), {w, as(w).scale, bias(w, n)}, as(x),
                                    {.transposed = transposed, .weight_bits = std::max(bits, 7)});
          };
          const shape w = transposed ? shape{k, n} : shape{n, k};
          BOOST_TEST(released_and_restored({numbers({3, k}), numbers(w), linear, bits}, set));
        }
    const auto convolution = [&](std::int64_t channels, std::int64_t out, std::int64_t groups, std::int64_t size,
                                 int bits = 8) {
      const auto padded = [&](const value& x, const value& w) {
        return quantized_conv2d(x, as(x), {w, as(w).scale, bias(w, out)}, as(x),
                                {{.padding = 1, .groups = groups}, -128, 127, std::max(bits, 7)});
      };
      return released_and_restored(
          {numbers({1, channels, size, size}), numbers({out, channels / groups, 3, 3}), padded, bits}, set);
    };
    for (const std::int64_t in : {3, 16, 20}) BOOST_TEST(convolution(in, 24, 1, 5));
    for (const int bits : {6, 7, 8}) BOOST_TEST(convolution(3, 24, 1, 40, bits));
    for (const int bits : {6, 7})
      for (const std::int64_t in : {3, 20, 70}) BOOST_TEST(convolution(in, 24, 1, 5, bits));
    (void)convolution(20, 24, 1, 40);
    BOOST_TEST(convolution(16, 16, 2, 9));
    (void)convolution(48, 48, 48, 9);
  }
}

BOOST_AUTO_TEST_CASE(elements_that_a_plan_reads_are_kept) {
  const auto both = [](const value& x, const value& w) { return matmul(x, w) + sum(w); };
  for (const isa set : sets_of_machine())
    BOOST_TEST(!released_and_restored({floats({3, 20}), floats({20, 40}), both}, set));
}

BOOST_AUTO_TEST_CASE(a_parameter_is_released_only_where_it_may_be) {
  const product one{floats({3, 20}), floats({20, 40}), [](const value& x, const value& w) { return matmul(x, w); }};
  const program p = program_of(one);
  parameter_store store;
  parameter& w = store.add("w", elements_of_every_kind(one.w), state_role::parameter);
  const auto plan = make_plan(p, std::vector{one.x.dims}, target_isa());
  executor kept(plan, &store);
  BOOST_TEST(w.value().data());
  w.releasable();
  executor freed(plan, &store);
  BOOST_TEST(!w.value().data());
  BOOST_TEST(w.value().bytes() == 20u * 40 * 4);
  w.keep();
  w.release();
  BOOST_TEST(w.value().data());
}

BOOST_AUTO_TEST_CASE(a_plan_that_reads_the_elements_unpacks_them) {
  const tensor_type x = floats({3, 20}), w = floats({20, 40});
  const any_tensor weights = to_tensor(random_array(w.element, w.dims, 5));
  const program packs = program_of({x, w, [](const value& a, const value& b) { return matmul(a, b); }});
  const program reads = program_of({floats({1}), w, [](const value& a, const value& b) { return a + b; }});
  parameter_store store;
  parameter& of = store.add("w", weights.copy(), state_role::parameter);
  of.releasable();
  executor first(make_plan(packs, std::vector{x.dims}, target_isa()), &store);
  BOOST_TEST(!of.value().data());
  executor second(make_plan(reads, std::vector{shape{1}}, target_isa()), &store);
  const float zero = 0;
  any_tensor sum(w);
  second.bind_input(0, &zero);
  second.bind_output(0, sum.mutable_data());
  second.run();
  BOOST_TEST(std::memcmp(sum.data(), weights.data(), weights.bytes()) == 0);
  executor third(make_plan(packs, std::vector{x.dims}, target_isa()), &store);
  BOOST_TEST(of.value().data());
}

BOOST_AUTO_TEST_SUITE_END()
