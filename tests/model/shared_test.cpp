// Reference models in NeoML's usage: networks that many threads create, use and release beside the origin, flat and
// composite, created in advance and moved; the same with full copies. Permitted and rejected operations.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

constexpr auto connected = sequential(nn::linear{.in_features = 36, .out_features = 50}, nn::relu{}, nn::dropout{0.1},
                                      nn::linear{.in_features = 50, .out_features = 3});
constexpr auto flat = sequential(nn::flatten{}, connected);
using flat_type = model<flat, input<"N", 1, 6, 6>>;
using flat_factory = reference_factory<flat, input<"N", 1, 6, 6>>;
using squares_type = tensor<float, extents<dyn, 1, 6, 6>>;

constexpr auto encoder = sequential(nn::transformer_encoder_layer{.d_model = 16, .nhead = 2, .dim_feedforward = 32},
                                    nn::linear{.in_features = 16, .out_features = 4});
using encoder_type = model<encoder, input<"N", "T", 16>>;
using encoder_factory = reference_factory<encoder, input<"N", "T", 16>>;
using sequences = tensor<float, extents<dyn, dyn, 16>>;

// Logs memory and time of a full copy or of a reference model.
template <class F> void measured(std::string_view what, F f) {
  memory::reset_peak();
  const auto before = memory::counters().current;
  const auto begin = std::chrono::steady_clock::now();
  f();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  BOOST_TEST_MESSAGE(what << ": " << took.count() << " ms, peak " << (memory::counters().peak - before) / 1024
                          << " KiB");
}

template <class X>
concept Learns = requires(X& x, const image_dataset& d) { fit(x, d, loss::cross_entropy{}, optim::sgd{}); };
template <class X>
concept Saves = requires(X& x) { save(x, std::string()); };
template <class X>
concept Loads = requires(X& x) { load(x, std::string()); };
template <class X>
concept GivesParameters = requires(X& x) { x.parameters(); };
template <class X>
concept GivesCore = requires(X& x) { x.core(); };
template <class X>
concept Steps = requires(X& x) { x.backward(); };

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_networks)

BOOST_AUTO_TEST_CASE(four_threads_create_use_and_release_beside_the_origin) {
  auto net = std::make_unique<flat_type>(model_options{.seed = 3});
  fit(*net, squares(60, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 10});
  const auto x = random_tensor<squares_type>({8, 1, 6, 6}, 2);
  const auto expected = (*net)(x);
  auto factory = std::make_unique<flat_factory>(*net);
  net.reset();
  std::atomic<int> wrong{0};
  const auto work = [&](int w) {
    for (int round = 0; round < 10; ++round) {
      if (w == 0) {
        auto origin = factory->origin();
        wrong += !same_bits(origin(x), expected);
      } else {
        auto r = factory->create();
        wrong += !same_bits(r(x), expected);
      }
    }
  };
  measured("four reference models", [&] { parallel_workers(4, work); });
  BOOST_TEST(wrong == 0);
  auto origin = factory->origin();
  factory.reset();
  BOOST_TEST(same_bits(origin(x), expected));
  flat_type whole({.seed = 3});
  measured("four full copies", [&] {
    parallel_workers(4, [&](int) {
      flat_type copy(whole);
      for (int round = 0; round < 10; ++round) copy(x);
    });
  });
}

BOOST_AUTO_TEST_CASE(five_threads_share_a_transformer_encoder) {
  encoder_type net({.seed = 3});
  const auto x = random_tensor<sequences>({2, 7, 16}, 2);
  const auto expected = net(x);
  const encoder_factory factory(std::move(net));
  std::atomic<int> wrong{0};
  measured("five reference models", [&] {
    parallel_workers(5, [&](int) {
      for (int round = 0; round < 10; ++round) {
        auto r = factory.create();
        wrong += !same_bits(r(x), expected);
      }
    });
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(references_made_beforehand_are_moved_to_their_threads) {
  flat_type net({.seed = 3});
  const auto x = random_tensor<squares_type>({8, 1, 6, 6}, 2);
  const auto expected = net(x);
  auto factory = std::make_unique<flat_factory>(std::move(net));
  std::vector<reference_model<flat_factory::traits>> made;
  for (int i = 0; i < 4; ++i) made.push_back(factory->create());
  auto moved = std::move(made);
  factory.reset();
  std::atomic<int> wrong{0};
  parallel_workers(4, [&](int w) {
    auto mine = std::move(moved[static_cast<std::size_t>(w)]);
    for (int round = 0; round < 10; ++round) wrong += !same_bits(mine(x), expected);
  });
  BOOST_TEST(wrong == 0);
}

// NeoML's table of permitted operations; those that throw there at run time do not compile here.
BOOST_AUTO_TEST_CASE(what_a_reference_model_allows_and_refuses) {
  using reference = reference_model<flat_factory::traits>;
  using origin = origin_model<flat_factory::traits>;
  static_assert(Learns<flat_type> && !Learns<reference> && !Learns<origin>);
  static_assert(Saves<flat_type> && !Saves<reference> && !Saves<origin>);
  static_assert(Loads<flat_type> && !Loads<reference> && !Loads<origin>);
  static_assert(GivesParameters<flat_type> && !GivesParameters<reference> && !GivesParameters<origin>);
  static_assert(GivesCore<flat_type> && !GivesCore<reference> && !GivesCore<origin>);
  static_assert(!Steps<reference> && !Steps<origin>);
  static_assert(!std::copy_constructible<reference> && std::move_constructible<reference>);
  // permitted: runs of any valid shape, inspecting the net, releasing memory
  flat_type net({.seed = 3});
  const auto x = random_tensor<squares_type>({8, 1, 6, 6}, 2);
  const auto expected = net(x);
  flat_factory factory(net);
  auto r = factory.create();
  for (std::int64_t n : {8, 2, 5, 8}) BOOST_TEST(same_bits(r(x.rows(0, n)), expected.rows(0, n)));
  BOOST_TEST(r.shared_part()->inference().states().size() == 4u);
  const auto kept = memory::counters().cached;
  BOOST_TEST(kept > 0);
  memory::trim();
  BOOST_TEST(memory::counters().cached < kept);
  BOOST_TEST(same_bits(r(x), expected));
}

BOOST_AUTO_TEST_CASE(workers_as_many_as_cores_and_their_errors) {
  flat_type net({.seed = 3});
  const auto x = random_tensor<squares_type>({8, 1, 6, 6}, 2);
  const auto expected = net(x);
  const flat_factory factory(net);
  const int cores = available_cores();
  for (int again = 0; again < 2; ++again) {
    std::atomic<int> equal{0};
    parallel_workers(cores, [&](int) {
      auto r = factory.create();
      equal += same_bits(r(x), expected);
    });
    BOOST_TEST(equal == cores);
  }
  BOOST_CHECK_THROW(parallel_workers(3,
                                     [&](int w) {
                                       auto r = factory.create();
                                       if (w == 1) throw std::runtime_error("no data");
                                       r(x);
                                     }),
                    std::runtime_error);
  BOOST_TEST(same_bits(factory.create()(x), expected));
}

BOOST_AUTO_TEST_SUITE_END()
