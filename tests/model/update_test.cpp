// Exchange of weights while reference models serve: each call uses one set, the next call uses the new one, and a
// failing update has no effect.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

using net_type = model<lenet, input<"N", 1, 28, 28>>;
using factory_type = reference_factory<lenet, input<"N", 1, 28, 28>>;

constexpr auto with_norm =
    sequential(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}, nn::batch_norm2d{4}, nn::relu{},
               nn::flatten{}, nn::linear{.in_features = 64, .out_features = 3});
constexpr auto norms = sequential(nn::linear{.in_features = 16, .out_features = 64}, nn::batch_norm1d{64}, nn::relu{},
                                  nn::linear{.in_features = 64, .out_features = 64}, nn::batch_norm1d{64}, nn::relu{},
                                  nn::linear{.in_features = 64, .out_features = 16});
using net_of_norms = model<norms, input<"N", 16>>;
using norm_factory = reference_factory<norms, input<"N", 16>>;
constexpr auto small_net = sequential(nn::linear{.in_features = 4, .out_features = 8}, nn::relu{},
                                      nn::linear{.in_features = 8, .out_features = 2});
constexpr auto wide_images =
    sequential(nn::conv2d{.in_channels = 1, .out_channels = 16, .kernel_size = 3, .padding = 1}, nn::relu{},
               nn::conv2d{.in_channels = 16, .out_channels = 16, .kernel_size = 3, .padding = 1}, nn::relu{});
constexpr auto gates =
    sequential(nn::gru{.input_size = 5, .hidden_size = 6}, nn::lstm{.input_size = 6, .hidden_size = 3});
using small_images = tensor<float, extents<dyn, 1, 6, 6>>;

}  // namespace

BOOST_AUTO_TEST_SUITE(updates)

BOOST_AUTO_TEST_CASE(the_next_call_computes_with_the_new_weights) {
  net_type one({.seed = 1}), two({.seed = 2});
  const auto x = random_tensor<images>({5, 1, 28, 28}, 1);
  const auto first = one(x), second = two(x);
  const factory_type factory(one);
  auto early = factory.create(), idle = factory.create();
  for (std::int64_t n : {5, 1, 3}) BOOST_TEST(same_bits(early(x.rows(0, n)), first.rows(0, n)));
  factory.update(two);
  for (std::int64_t n : {1, 5, 3, 2}) BOOST_TEST(same_bits(early(x.rows(0, n)), second.rows(0, n)));
  BOOST_TEST(same_bits(factory.create()(x), second));
  factory.update(one.parameters());
  BOOST_TEST(same_bits(idle(x), first));
  BOOST_TEST(same_bits(early(x), first));
  BOOST_TEST(factory.shared_bytes() == one.parameters().bytes());
  auto& bias = *one.parameters().find("11.bias");  // the factory has a copy
  std::memset(bias.mutable_data(), 0, 40);
  BOOST_TEST(same_bits(early(x), first));
}

BOOST_AUTO_TEST_CASE(folded_weights_are_folded_anew) {
  model<with_norm, input<"N", 1, 6, 6>> one({.seed = 1}), two({.seed = 2});
  for (auto* net : {&one, &two}) fit(*net, squares(30, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 10});
  const auto x = random_tensor<small_images>({4, 1, 6, 6}, 2);
  using folding = reference_factory<with_norm, input<"N", 1, 6, 6>>;
  const folding factory(one, {.optimize = true}), fresh(two, {.optimize = true});
  auto r = factory.create();
  const auto before = r(x);
  factory.update(two);
  const auto after = r(x);
  BOOST_TEST(!same_bits(before, after));
  BOOST_TEST(same_bits(after, fresh.create()(x)));
}

// New weights are packed in lent memory: memory that others have lent meanwhile stays unchanged, and freed memory is
// not written.
BOOST_AUTO_TEST_CASE(weights_are_made_ready_in_memory_that_is_lent) {
  net_of_norms one({.seed = 1}), two({.seed = 2});
  auto pool = std::make_shared<arena_pool>();
  const norm_factory factory(one, {.arenas = pool});
  auto r = factory.create(), other = factory.create();
  const auto x = random_tensor<matrix<float, dyn, 16>>({512, 16}, 1);
  const auto first = one(x), second = two(x);
  BOOST_TEST(same_bits(r(x), first));
  for (int i = 0; i < 5; ++i) {
    factory.update(two);
    pool->trim();
    BOOST_TEST(pool->bytes() == 0u);
    BOOST_TEST(same_bits(r(x), second));
    factory.update(one);
    BOOST_TEST(same_bits(other(x), first));  // in the memory that `r` used
    BOOST_TEST(same_bits(r(x), first));
  }
}

BOOST_AUTO_TEST_CASE(threads_share_a_pool_while_weights_are_exchanged) {
  net_of_norms net({.seed = 1});
  const norm_factory factory(net, {.arenas = std::make_shared<arena_pool>()});
  const auto x = random_tensor<matrix<float, dyn, 16>>({64, 16}, 1);
  const auto expected = net(x);
  std::atomic<int> running{4}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      auto r = factory.create();
      for (int i = 0; i < 2000; ++i) wrong += !same_bits(r(x), expected);
      --running;
    });
  while (running > 0) factory.update(net);  // the same weights each time
  for (auto& t : threads) t.join();
  BOOST_TEST(wrong == 0);
}

// Values that depend only on parameters, such as the sum of two biases, are recomputed; also after another shape has
// used the memory.
BOOST_AUTO_TEST_CASE(what_depends_on_parameters_alone_is_computed_anew) {
  using sequences = tensor<float, extents<dyn, dyn, 5>>;
  using gates_type = model<gates, input<"T", "N", 5>>;
  gates_type one({.seed = 1}), two({.seed = 2});
  const reference_factory<gates, input<"T", "N", 5>> factory(one);
  auto r = factory.create();
  const auto x = random_tensor<sequences>({3, 2, 5}, 1), y = random_tensor<sequences>({9, 4, 5}, 2);
  for (auto* net : {&one, &two, &one}) {
    if (net == &two) factory.update(two);
    else factory.update(one);
    for (int round = 0; round < 2; ++round) {
      BOOST_TEST(same_bits(r(x), (*net)(x)));
      BOOST_TEST(same_bits(r(y), (*net)(y)));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_update_that_fails_changes_nothing) {
  test_files::folder dir;
  net_type one({.seed = 1}), two({.seed = 2});
  const auto x = random_tensor<images>({2, 1, 28, 28}, 1);
  const auto first = one(x);
  const factory_type factory(one);
  auto r = factory.create();
  save(two, dir / "two.safetensors");
  {
    std::ifstream whole(dir / "two.safetensors", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(whole)), {});
    std::ofstream(dir / "cut.safetensors", std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  }
  BOOST_TEST(holds(error_of([&] { factory.update_from_file(dir / "cut.safetensors"); }), "file_error: "));
  BOOST_TEST(holds(error_of([&] { factory.update_from_file(dir / "absent"); }), "file_error: "));
  BOOST_TEST(same_bits(r(x), first));
  parameter_store nothing;
  BOOST_TEST(error_of([&] { factory.update(nothing); }) ==
             "error: update: parameter `0.weight` is missing; the weights stay as they were");
  parameter_store odd(two.parameters()), wrong;
  for (std::size_t i = 0; i < odd.size(); ++i)
    wrong.add(odd[i].name(),
              odd[i].name() == "11.bias" ? any_tensor(tensor_type{dtype::float32, {11}}) : odd[i].value(),
              odd[i].role());
  BOOST_TEST(error_of([&] { factory.update(wrong); }) ==
             "shape_error: update: parameter `11.bias` is float32[10]; got float32[11]; the weights stay as "
             "they were");
  BOOST_TEST(same_bits(r(x), first));
  BOOST_TEST(same_bits(factory.create()(x), first));
  factory.update_from_file(dir / "two.safetensors");
  BOOST_TEST(same_bits(r(x), two(x)));
}

BOOST_AUTO_TEST_CASE(old_weights_are_freed_with_their_last_user) {
  net_type one({.seed = 1});
  const auto x = random_tensor<images>({1, 1, 28, 28}, 1);
  const factory_type factory(one);
  std::vector<reference_model<factory_type::traits>> users;
  for (int i = 0; i < 4; ++i) users.push_back(factory.create());
  for (auto& u : users) u(x);
  const auto settled = memory::counters().current;  // with the initial set
  for (int i = 0; i < 3; ++i) {
    factory.update(one);
    for (auto& u : users) u(x);
    BOOST_TEST(memory::counters().current == settled);
  }
  factory.update(one);
  BOOST_TEST(memory::counters().current > settled);  // four idle users hold the previous set
  users.clear();
  BOOST_TEST(memory::counters().current < settled);
}

// An idle origin holds no old weights.
BOOST_AUTO_TEST_CASE(the_origin_keeps_no_old_weights) {
  net_type one({.seed = 1}), two({.seed = 2});
  const auto x = random_tensor<images>({1, 1, 28, 28}, 1);
  const auto second = two(x);
  const factory_type factory(one);
  auto user = factory.create();
  user(x);
  const auto settled = memory::counters().current;
  {
    auto o = factory.origin();
    o(x);
    factory.update(two);
    user(x);
    BOOST_TEST(memory::counters().current > settled);  // it holds the set that it used
    BOOST_TEST(same_bits(o(x), second));
  }
  BOOST_TEST(memory::counters().current == settled);
  BOOST_TEST(same_bits(factory.origin()(x), second));
}

// An update packs and runs nothing: it needs no memory for activations, and scratch for a single thread.
BOOST_AUTO_TEST_CASE(an_update_takes_no_arena) {
  model<wide_images, input<"N", 1, 28, 28>> one({.seed = 1}), two({.seed = 2});
  const auto x = random_tensor<images>({128, 1, 28, 28}, 1);
  const auto second = two(x);
  auto pool = std::make_shared<arena_pool>(std::size_t(64) << 20);
  const reference_factory<wide_images, input<"N", 1, 28, 28>> factory(one, {.arenas = pool});
  auto r = factory.create();
  r(x);
  BOOST_TEST(pool->bytes() > std::size_t(4) << 20);
  pool->trim();
  const auto before = memory::counters().current;
  memory::reset_peak();
  factory.update(two);
  BOOST_TEST(memory::counters().peak - before < 2 << 20);
  BOOST_TEST(same_bits(r(x), second));
}

// Three sets of weights alternate while threads create, run and drop reference models: every result belongs to exactly
// one set, never to one older than the last that the thread saw.
BOOST_AUTO_TEST_CASE(threads_see_whole_sets_in_order) {
  constexpr int sets = 3, rounds = 60;
  std::vector<std::unique_ptr<net_type>> nets;
  const auto x = random_tensor<images>({3, 1, 28, 28}, 1);
  std::vector<decltype(std::declval<net_type&>()(x))> expected;
  for (int i = 0; i < sets; ++i) {
    nets.push_back(std::make_unique<net_type>(model_options{.seed = i}));
    expected.push_back((*nets.back())(x));
  }
  const factory_type factory(*nets[0]);
  std::atomic<int> begun{0}, ended{0}, wrong{0};  // begun and finished updates
  parallel_workers(8, [&](int w) {
    if (w == 0) {
      for (int i = 1; i <= rounds; ++i) {
        begun = i;
        factory.update(*nets[static_cast<std::size_t>(i % sets)]);
        ended = i;
        memory::trim();
      }
      return;
    }
    auto r = factory.create();
    while (ended < rounds) {
      if (w % 2) r = factory.create();
      const std::int64_t n = 1 + w % 3;
      const int from = ended;
      const auto y = r(x.rows(0, n));
      const int to = begun;
      bool found = false;
      for (int i = from; i <= to && !found; ++i)
        found = same_bits(y, expected[static_cast<std::size_t>(i % sets)].rows(0, n));
      wrong += !found;
    }
  });
  BOOST_TEST(wrong == 0);
}

// Reference models that live for one call, 10,000 on each of 8 threads, while weights are exchanged, caches are
// cleared, the plan cache is smaller than the number of shapes, and threads trim their memory now and then.
BOOST_AUTO_TEST_CASE(eighty_thousand_references_come_and_go) {
  constexpr int sets = 3, rounds = 10'000, workers = 8;
  using rows = matrix<float, dyn, 4>;
  using small_type = model<small_net, input<"N", 4>>;
  std::vector<std::unique_ptr<small_type>> nets;
  const auto x = random_tensor<rows>({6, 4}, 1);
  std::vector<decltype(std::declval<small_type&>()(x))> expected;
  for (int i = 0; i < sets; ++i) {
    nets.push_back(std::make_unique<small_type>(model_options{.seed = i}));
    expected.push_back((*nets.back())(x));
  }
  const reference_factory<small_net, input<"N", 4>> factory(*nets[0]);
  auto& plans = factory.plans();
  plans.limit({.entries = 4});
  std::atomic<int> wrong{0};
  parallel_workers(workers, [&](int w) {
    for (int i = 0; i < rounds; ++i) {
      if (w == 0 && i % 50 == 0) factory.update(*nets[static_cast<std::size_t>(i / 50 % sets)]);
      if (i % 500 == w) memory::trim();
      if (w == 1 && i % 1000 == 0) plans.clear();
      // five shapes, one of them rare: it evicts another one each time
      const std::int64_t n = i % 400 == 0 ? 5 : 1 + i % 4;
      auto r = factory.create();
      const auto y = r(x.rows(0, n));
      bool found = false;
      for (const auto& e : expected) found = found || same_bits(y, e.rows(0, n));
      wrong += !found;
    }
  });
  BOOST_TEST(wrong == 0);
  BOOST_TEST(plans.statistics().entries <= 4u);
  BOOST_TEST(plans.statistics().evictions > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
