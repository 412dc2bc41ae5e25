// Failure of any allocation while a model is loaded, or a reference model is created and run: nothing leaks, and the
// same objects work afterwards.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "failing_allocations.h"
#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;
using failing_allocations::failure;

namespace {

constexpr auto net = sequential(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}, nn::batch_norm2d{4},
                                nn::relu{}, nn::flatten{}, nn::linear{.in_features = 64, .out_features = 3});
using net_type = model<net, input<"N", 1, 6, 6>>;
using factory_type = reference_factory<net, input<"N", 1, 6, 6>>;
using reference = decltype(std::declval<const factory_type&>().create());
using pictures = tensor<float, extents<dyn, 1, 6, 6>>;

// Runs f while its k-th allocation fails; false if that raised an error.
template <class F> bool passes(long k, const F& f) {
  failure one(k);
  try {
    f();
    return true;
  } catch (const std::bad_alloc&) {
  } catch (const out_of_memory&) {}
  return false;
}

struct in_use {
  std::int64_t bytes = memory::counters().current;
  long blocks = failing_allocations::alive();
};

// Calls round(k) for k = 1, 2, ... until no allocation fails; returns the number of allocations.
template <class F> long for_each_allocation(const F& round) {
  round(0);  // allocates what the whole program keeps
  for (long k = 1;; ++k) {
    memory::trim();  // so that blocks are allocated by the system
    const in_use before;
    round(k);
    const bool came = failing_allocations::came();
    const in_use after;
    BOOST_REQUIRE_MESSAGE(after.bytes == before.bytes && after.blocks == before.blocks,
                          "allocation " << k << ": " << after.bytes - before.bytes << " bytes and "
                                        << after.blocks - before.blocks << " blocks leak");
    if (!came) return k - 1;
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(failing)

BOOST_AUTO_TEST_CASE(while_a_model_is_loaded_and_run) {
  test_files::folder dir;
  const auto x = random_tensor<pictures>({2, 1, 6, 6}, 1);
  const std::string file = dir / "net.safetensors";
  net_type origin({.seed = 4});
  save(origin, file);
  const auto expected = origin(x);
  const long count = for_each_allocation([&](long k) {
    std::optional<net_type> m(std::in_place, model_options{.seed = 7});
    auto all = [&] {
      load(*m, file);
      return same_bits((*m)(x), expected);
    };
    bool right = true;
    passes(k, [&] { right = all(); });
    BOOST_REQUIRE_MESSAGE(right && all(), "allocation " << k);
  });
  BOOST_TEST_MESSAGE(count << " allocations");
  BOOST_TEST(count > 20);
}

BOOST_AUTO_TEST_CASE(while_reference_models_are_made_and_run) {
  test_files::folder dir;
  const auto x = random_tensor<pictures>({2, 1, 6, 6}, 1);
  const std::string file = dir / "net.safetensors";
  net_type origin({.seed = 4});
  save(origin, file);
  const auto expected = origin(x);
  const long count = for_each_allocation([&](long k) {
    std::optional<factory_type> factory;
    std::optional<reference> first, second;
    auto all = [&] {
      if (!factory) factory.emplace(factory_type::from_file(file));
      if (!first) first.emplace(factory->create());
      if (!second) second.emplace(factory->create());
      return same_bits((*first)(x), expected) && same_bits((*second)(x[1]), expected[1]);
    };
    bool right = true;
    passes(k, [&] { right = all(); });
    BOOST_REQUIRE_MESSAGE(right && all(), "allocation " << k);
  });
  BOOST_TEST_MESSAGE(count << " allocations");
  BOOST_TEST(count > 20);
}

BOOST_AUTO_TEST_CASE(while_expressions_are_evaluated) {
  const matrix<float> a{{1, 2}, {3, 4}};
  const long count = for_each_allocation([&](long k) {
    context where;  // a new context, so each round plans again
    auto one = [&]() -> float { return evaluate(matmul(a, a) + tanh(a), where)(0, 0); };
    float got = 0;
    if (passes(k, [&] { got = one(); })) BOOST_REQUIRE_EQUAL(got, one());
    BOOST_REQUIRE_GT(one(), 7.7f);
  });
  BOOST_TEST_MESSAGE(count << " allocations");
  BOOST_TEST(count > 0);
}

BOOST_AUTO_TEST_SUITE_END()
