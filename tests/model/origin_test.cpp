// Factories: the origin and its exclusive use, generators, lifetimes in any order, lent memory, programs.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

// Random in inference, too.
struct noisy {
  constexpr auto forward(auto& s, const auto& x) const {
    return x + random_uniform(s.random_state(), x, {.a = 0, .b = 1, .site = s.next_site()});
  }
};
constexpr auto noisy_net = sequential(nn::linear{.in_features = 4, .out_features = 3}, noisy{});
using noisy_type = model<noisy_net, input<"N", 4>>;
using noisy_factory = reference_factory<noisy_net, input<"N", 4>>;
using rows = matrix<float, dyn, 4>;

constexpr auto plain_net = sequential(nn::linear{.in_features = 4, .out_features = 8}, nn::dropout{0.3}, nn::relu{},
                                      nn::dropout{0.1}, nn::linear{.in_features = 8, .out_features = 2});
using plain_type = model<plain_net, input<"N", 4>>;
using plain_factory = reference_factory<plain_net, input<"N", 4>>;

constexpr auto alone = sequential(nn::linear{.in_features = 4, .out_features = 3, .bias = false});
constexpr auto chain =
    sequential(nn::linear{.in_features = 4, .out_features = 3, .bias = false}, nn::tanh{}, nn::sigmoid{}, nn::tanh{});
constexpr auto product = sequential(nn::linear{.in_features = 4, .out_features = 3}, nn::relu{});
constexpr auto picture = sequential(nn::conv2d{.in_channels = 1, .out_channels = 2, .kernel_size = 3}, nn::relu{});
template <const auto& Net> std::int64_t fused_in() {
  const reference_factory<Net, input<"N", 4>> factory(model<Net, input<"N", 4>>({.seed = 1}));
  BOOST_TEST((factory.report({{7, 4}}).fused == factory.report().fused));
  return factory.report().fused.value();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(origins)

BOOST_AUTO_TEST_CASE(each_reference_draws_from_a_copy_of_the_origins_generator) {
  noisy_type net({.seed = 7});
  const noisy_factory factory(net);
  const auto x = random_tensor<rows>({2, 4}, 1);
  auto a = factory.create(), b = factory.create();
  const auto first = a(x), second = a(x);
  BOOST_TEST(!same_bits(first, second));
  BOOST_TEST(same_bits(b(x), first));  // b's generator is separate
  BOOST_TEST(same_bits(b(x), second));
  BOOST_TEST(same_bits(net(x), first));  // and so is that of the model that was copied
  {
    auto origin = factory.origin();
    BOOST_TEST(same_bits(origin(x), first));
    BOOST_TEST(same_bits(factory.create()(x), first));  // while the origin is lent: its state before
  }
  auto after = factory.create();
  BOOST_TEST(same_bits(after(x), second));  // the origin has drawn once
  factory.update(net);                      // only weights
  BOOST_TEST(!same_bits(after(x), second));
  BOOST_TEST(same_bits(factory.create()(x), second));
}

BOOST_AUTO_TEST_CASE(a_seed_of_the_factory_is_where_generators_begin) {
  noisy_type net({.seed = 7});
  test_files::folder dir;
  save(net, dir / "net.safetensors");
  const auto x = random_tensor<rows>({2, 4}, 1);
  const auto first = net(x), second = net(x);  // advances the model's generator
  // A file has no generator: it begins at 0, or at the seed that is given.
  BOOST_TEST(!same_bits(noisy_factory::from_file(dir / "net.safetensors").create()(x), first));
  const auto from_file = noisy_factory::from_file(dir / "net.safetensors", {.seed = 7});
  auto a = from_file.create(), b = from_file.create();
  BOOST_TEST(same_bits(a(x), first));
  BOOST_TEST(same_bits(a(x), second));
  BOOST_TEST(same_bits(b(x), first));
  BOOST_TEST(same_bits(from_file.origin()(x), first));
  // From a model whose generator has advanced; all foldable layers are folded.
  BOOST_TEST(same_bits(noisy_factory(net, {.seed = 7}).create()(x), first));
  BOOST_TEST(!same_bits(noisy_factory(net).create()(x), first));
  BOOST_TEST(!same_bits(noisy_factory(net, {.seed = 8}).create()(x), first));
  // The same for programs.
  const any_tensor in[] = {x};
  const auto of_program =
      program_factory::from_file(net.core().inference_program(), dir / "net.safetensors", {.seed = 7});
  BOOST_TEST(same_bits(of_program.create()(in)[0].as<float, extents<dyn, 3>>(), first));
}

BOOST_AUTO_TEST_CASE(one_has_the_origin_at_a_time) {
  const plain_factory factory{plain_type({.seed = 1})};
  const auto x = random_tensor<rows>({3, 4}, 1);
  const auto expected = factory.create()(x);
  auto held = std::make_unique<origin_model<plain_factory::traits>>(factory.origin());
  static_assert(!std::copy_constructible<origin_model<plain_factory::traits>>);
  BOOST_TEST(!factory.try_origin().has_value());
  auto moved = std::make_unique<origin_model<plain_factory::traits>>(std::move(*held));
  held.reset();
  BOOST_TEST(!factory.try_origin().has_value());  // a moved-from origin returns nothing
  std::atomic<int> stage{0};
  std::thread other([&] {
    stage = 1;
    auto mine = factory.origin();
    stage = 2;
    BOOST_TEST(same_bits(mine(x), expected));
  });
  while (stage == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  BOOST_TEST(stage == 1);
  BOOST_TEST(same_bits((*moved)(x), expected));
  moved.reset();
  other.join();
  BOOST_TEST(stage == 2);
  auto again = factory.try_origin();
  BOOST_REQUIRE(again.has_value());
  BOOST_TEST(same_bits((*again)(x), expected));
}

BOOST_AUTO_TEST_CASE(factory_origin_and_references_end_in_any_order) {
  const auto x = random_tensor<rows>({3, 4}, 1);
  plain_type net({.seed = 1});
  const auto expected = net(x);
  int order[] = {0, 1, 2, 3};
  do {
    auto model = std::make_unique<plain_type>(net);
    auto factory = std::make_unique<plain_factory>(*model);
    auto reference = std::make_unique<reference_model<plain_factory::traits>>(factory->create());
    auto origin = std::make_unique<origin_model<plain_factory::traits>>(factory->origin());
    BOOST_TEST(same_bits((*reference)(x), expected));
    for (int next : order) {
      if (next == 0) model.reset();
      if (next == 1) factory.reset();
      if (next == 2) reference.reset();
      if (next == 3) origin.reset();
      if (reference) BOOST_TEST(same_bits((*reference)(x), expected));
      if (origin) BOOST_TEST(same_bits((*origin)(x), expected));
      if (factory) BOOST_TEST(same_bits(factory->create()(x), expected));
    }
  } while (std::next_permutation(std::begin(order), std::end(order)));
}

BOOST_AUTO_TEST_CASE(a_report_says_what_inference_does_without) {
  const plain_type net({.seed = 1});
  const plain_factory factory(net, {.optimize = true});
  BOOST_TEST(factory.report().dropped == 2);
  BOOST_TEST(factory.report().folded == 0);
  BOOST_TEST(factory.report().computed == 0);
}

BOOST_AUTO_TEST_CASE(a_report_counts_what_plans_fuse) {
  BOOST_TEST(fused_in<alone>() == 0);
  BOOST_TEST(fused_in<chain>() == 2);    // three operations in one loop
  BOOST_TEST(fused_in<product>() == 2);  // bias and relu in the product
  // Open extents: no plan, so no count.
  const reference_factory<picture, input<"N", 1, "H", "W">> factory(
      model<picture, input<"N", 1, "H", "W">>({.seed = 1}), {.optimize = true});
  BOOST_TEST(!factory.report().fused.has_value());
  BOOST_TEST(factory.plans().statistics().builds == 0);
  BOOST_TEST((factory.report({{2, 1, 8, 9}}).fused == 2));
  BOOST_TEST(factory.plans().statistics().builds == 1);
  factory.create()(random_tensor<tensor<float, extents<dyn, 1, dyn, dyn>>>({2, 1, 8, 9}, 1));
  BOOST_TEST(factory.plans().statistics().builds == 1);  // the counted plan is the one that runs
  BOOST_TEST(error_of([&] { factory.report({{2, 1, 2, 2}}); }).starts_with("shape_error: "));
}

BOOST_AUTO_TEST_CASE(models_of_several_sizes_lend_memory) {
  auto arenas = std::make_shared<arena_pool>();
  plain_type small({.seed = 1});
  model<lenet, input<"N", 1, 28, 28>> large({.seed = 2});
  const plain_factory small_factory(small, {.arenas = arenas});
  const reference_factory<lenet, input<"N", 1, 28, 28>> large_factory(large, {.arenas = arenas});
  const auto x = random_tensor<rows>({3, 4}, 1);
  const auto pictures = random_tensor<images>({4, 1, 28, 28}, 2);
  const auto small_result = small(x);
  const auto large_result = large(pictures);
  auto a = small_factory.create();
  auto b = large_factory.create(), c = large_factory.create();
  for (int round = 0; round < 3; ++round) {
    BOOST_TEST(same_bits(a(x), small_result));
    BOOST_TEST(same_bits(b(pictures), large_result));
    BOOST_TEST(same_bits(c(pictures), large_result));
    BOOST_TEST(arenas->lent() == 0u);
  }
  const auto one = arenas->bytes();
  BOOST_TEST(one > 0u);
  BOOST_TEST(b.bytes() < one);  // only its arguments
  arenas->trim();
  BOOST_TEST(arenas->bytes() == 0u);
  BOOST_TEST(same_bits(c(pictures), large_result));
  BOOST_TEST(arenas->bytes() == one);

  // a limit that allows one large model to run: the others wait
  auto narrow = std::make_shared<arena_pool>(one + one / 2);
  const reference_factory<lenet, input<"N", 1, 28, 28>> limited(large, {.arenas = narrow});
  std::atomic<int> wrong{0};
  parallel_workers(4, [&](int) {
    auto r = limited.create();
    for (int i = 0; i < 20; ++i) wrong += !same_bits(r(pictures), large_result) || narrow->bytes() > narrow->limit();
  });
  BOOST_TEST(wrong == 0);
  const reference_factory<lenet, input<"N", 1, 28, 28>> too_narrow(large,
                                                                   {.arenas = std::make_shared<arena_pool>(1000)});
  auto r = too_narrow.create();
  const auto message = error_of([&] { r(pictures); });
  BOOST_TEST(holds(message, "error: out of memory: a run needs "));
  BOOST_TEST(holds(message, "the limit of its arena pool is 1000"));
}

// A model that was given away or moved from says so.
BOOST_AUTO_TEST_CASE(a_model_that_was_given_away_says_so) {
  const auto x = random_tensor<rows>({3, 4}, 1);
  plain_type net({.seed = 1});
  const auto expected = net(x);
  const std::string words = "error: this model was given to a factory or moved to another model";
  {
    const plain_factory factory(std::move(net));
    for (int i = 0; i < 2; ++i) {
      BOOST_TEST(holds(error_of([&] { net(x); }), words));
      BOOST_TEST(holds(error_of([&] { net.parameters(); }), words));
      BOOST_TEST(holds(error_of([&] { std::as_const(net).parameters(); }), words));
      BOOST_TEST(holds(error_of([&] { save(net, "never"); }), words));
      BOOST_TEST(holds(error_of([&] { net.explain({shape{3, 4}}); }), words));
      BOOST_TEST(holds(error_of([&] { plain_type copy(net); }), words));
      BOOST_TEST(holds(error_of([&] { plain_factory again(std::move(net)); }), words));
      BOOST_TEST(holds(error_of([&] { factory.update(net); }), words));
      BOOST_TEST(holds(error_of([&] { net.core().threads(2); }), words));
    }
    BOOST_TEST(same_bits(factory.create()(x), expected));
  }
  net = plain_type({.seed = 1});  // assignable again
  BOOST_TEST(same_bits(net(x), expected));
  plain_type other(std::move(net));
  BOOST_TEST(holds(error_of([&] { net(x); }), words));
  BOOST_TEST(same_bits(other(x), expected));
}

BOOST_AUTO_TEST_CASE(what_was_moved_from_says_so) {
  const auto x = random_tensor<rows>({3, 4}, 1);
  const plain_type net({.seed = 1});
  const std::string words = "error: this factory, origin or reference model was moved to another one";
  plain_factory factory(net);
  auto r = factory.create();
  auto origin = factory.origin();
  const auto expected = r(x);
  auto r_now = std::move(r);
  auto origin_now = std::move(origin);
  auto factory_now = std::move(factory);
  BOOST_TEST(holds(error_of([&] { r(x); }), words));
  BOOST_TEST(holds(error_of([&] { r.bytes(); }), words));
  BOOST_TEST(holds(error_of([&] { origin(x); }), words));
  BOOST_TEST(holds(error_of([&] { factory.create(); }), words));
  BOOST_TEST(holds(error_of([&] { factory.origin(); }), words));
  BOOST_TEST(holds(error_of([&] { factory.try_origin(); }), words));
  BOOST_TEST(holds(error_of([&] { factory.update(net); }), words));
  BOOST_TEST(holds(error_of([&] { factory.shared_bytes(); }), words));
  BOOST_TEST(same_bits(r_now(x), expected));
  BOOST_TEST(same_bits(origin_now(x), expected));
  BOOST_TEST(same_bits(factory_now.create()(x), expected));
}

// Factories of programs: from a copy, a move, a file; their origin.
BOOST_AUTO_TEST_CASE(a_factory_of_programs_does_what_one_of_models_does) {
  plain_type net({.seed = 1});
  const auto x = random_tensor<rows>({3, 4}, 1);
  const auto expected = net(x);
  const any_tensor in[] = {x};
  auto right = [&](auto&& r) { return same_bits(r(in)[0].template as<float, extents<dyn, 2>>(), expected); };
  const auto program = net.core().inference_program();
  test_files::folder dir;
  save(net, dir / "net.safetensors");
  const auto from_file = program_factory::from_file(program, dir / "net.safetensors", {.optimize = true});
  BOOST_TEST(right(from_file.create()));
  parameter_store states(net.parameters());
  const program_factory factory(program, std::move(states));
  BOOST_TEST(right(factory.create()));
  {
    auto origin = factory.origin();
    BOOST_TEST(!factory.try_origin().has_value());
    BOOST_TEST(right(origin));
  }
  auto again = factory.try_origin();
  BOOST_REQUIRE(again.has_value());
  BOOST_TEST(right(*again));
  auto moved = std::move(*again);
  BOOST_TEST(right(moved));
  BOOST_TEST(holds(error_of([&] { (*again)(in); }), "error: this factory, origin or reference model was moved"));
  BOOST_TEST(holds(error_of([&] { program_factory::from_file(program, dir / "absent"); }), "file_error: "));
  // Mismatches are diagnosed when the factory is created.
  BOOST_TEST(holds(error_of([&] { program_factory(nullptr, net.parameters()); }),
                   "value_error: a factory of reference models needs a program"));
  BOOST_TEST(holds(error_of([&] { program_factory::from_file(nullptr, dir / "net.safetensors"); }),
                   "value_error: a factory of reference models needs a program"));
  const auto name = net.parameters()[0].name();
  const auto dims = net.parameters()[0].value().shape();
  for (bool optimize : {false, true}) {
    BOOST_TEST(holds(error_of([&] { program_factory(program, parameter_store(), {.optimize = optimize}); }),
                     "error: state `" + name + "` of the program is not among"));
    parameter_store small, wide;
    small.add(name, any_tensor(tensor_type{dtype::float32, shape{1}}), state_role::parameter);
    wide.add(name, any_tensor(tensor_type{dtype::float64, dims}), state_role::parameter);
    BOOST_TEST(holds(error_of([&] { program_factory(program, small, {.optimize = optimize}); }),
                     "shape_error: state `" + name + "` is float32["));
    BOOST_TEST(holds(error_of([&] { program_factory(program, wide, {.optimize = optimize}); }),
                     "error: state `" + name + "` is float32["));
  }
}

BOOST_AUTO_TEST_CASE(programs_without_a_topology_are_served_as_well) {
  plain_type net({.seed = 1});
  const auto x = random_tensor<rows>({3, 4}, 1);
  const auto expected = net(x);
  program_factory factory(net.core().inference_program(), net.parameters());
  auto r = factory.create();
  const any_tensor in[] = {x};
  const auto out = r(in);
  BOOST_REQUIRE(out.size() == 1u);
  BOOST_TEST(same_bits(out[0].as<float, extents<dyn, 2>>(), expected));
  plain_type other({.seed = 2});
  factory.update(other.parameters());
  BOOST_TEST(same_bits(r(in)[0].as<float, extents<dyn, 2>>(), other(x)));
  BOOST_TEST(error_of([&] { r({}); }) == "value_error: the program has 1 inputs; got 0");
  const any_tensor wrong[] = {tensor<double, extents<3, 4>>()};
  BOOST_TEST(holds(error_of([&] { r(wrong); }), "input `input` is float32[Nx4]; got float64[3x4]"));
  const any_tensor mismatch[] = {matrix<float>(3, 5)};
  BOOST_TEST(holds(error_of([&] { r(mismatch); }), "shape_error: "));
  BOOST_TEST(same_bits(r(in)[0].as<float, extents<dyn, 2>>(), other(x)));
}

BOOST_AUTO_TEST_SUITE_END()
