// Reference models: the model's bits from shared weights, made and run by any number of threads.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

using net_type = model<lenet, input<"N", 1, 28, 28>>;
using factory_type = reference_factory<lenet, input<"N", 1, 28, 28>>;
using reference = decltype(std::declval<const factory_type&>().create());

// Nothing that changes it, and nothing but the inputs of the model.
template <class R>
concept Changeable = requires(R& r) { r.parameters(); } || requires(R& r) { r.core(); } || requires(R& r) { save(r, std::string()); } ||
                     requires(R& r) { load(r, std::string()); } || requires(R& r, const image_dataset& d) { fit(r, d, loss::cross_entropy{}, optim::sgd{}); };
static_assert(Changeable<net_type> && !Changeable<reference>);
static_assert(std::invocable<reference&, images> && !std::invocable<reference&, tensor<double, extents<dyn, 1, 28, 28>>> &&
              !std::invocable<reference&, tensor<float, extents<dyn, 1, 32, 32>>>);

constexpr auto net_of_squares = sequential(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel = 3}, nn::batch_norm2d{4}, nn::relu{},
                                           nn::flatten{}, nn::dropout{0.2}, nn::linear{.in = 64, .out = 3});

}  // namespace

BOOST_AUTO_TEST_SUITE(references)

BOOST_AUTO_TEST_CASE(from_a_copy_from_a_move_and_from_a_file) {
  test_files::folder dir;
  net_type net({.seed = 4});
  auto x = random_tensor<images>({9, 1, 28, 28}, 1);
  auto expected = net(x);
  save(net, dir / "net.safetensors");
  auto from_file = factory_type::from_file(dir / "net.safetensors", {.optimize = true});
  factory_type from_copy(net);
  // The copy is the factory's own.
  auto& bias = *net.parameters().find("11.bias");
  std::memset(bias.mutable_data(), 0, 40);
  bias.changed();
  BOOST_TEST(!same_bits(net(x), expected));
  auto zeroed = net(x);
  factory_type from_move(std::move(net));
  for (std::int64_t n : {9, 1, 4}) {
    BOOST_TEST(same_bits(from_file.create()(x.rows(0, n)), expected.rows(0, n)));
    BOOST_TEST(same_bits(from_copy.create()(x.rows(0, n)), expected.rows(0, n)));
    BOOST_TEST(same_bits(from_move.create()(x.rows(0, n)), zeroed.rows(0, n)));
  }
  auto one = from_copy.create()(x[3]);
  BOOST_TEST(same_bits(one, expected[3]));
  auto said = error_of([&] { factory_type::from_file(dir / "absent"); });
  BOOST_TEST(holds(said, "file_error: " + (dir / "absent")));
}

BOOST_AUTO_TEST_CASE(references_outlive_their_factory) {
  auto x = random_tensor<images>({2, 1, 28, 28}, 1);
  std::optional<net_type> net(std::in_place, model_options{.seed = 4});
  auto expected = (*net)(x);
  auto factory = std::make_unique<factory_type>(*net);
  auto early = factory->create(), late = factory->create();
  BOOST_TEST(same_bits(early(x), expected));
  net.reset();
  factory.reset();
  BOOST_TEST(same_bits(early(x), expected));
  BOOST_TEST(same_bits(late(x), expected));
  auto moved = std::move(late);
  BOOST_TEST(same_bits(moved(x[1]), expected[1]));
}

BOOST_AUTO_TEST_CASE(weights_are_shared) {
  net_type net({.seed = 4});
  factory_type factory(net);
  BOOST_TEST(factory.shared_bytes() == 61706u * 4);
  auto a = factory.create(), b = factory.create();
  auto x = random_tensor<images>({1, 1, 28, 28}, 1);
  BOOST_TEST(a.bytes() == 0u);
  a(x);
  b(x);
  BOOST_TEST(b.bytes() > 0u);
  BOOST_TEST(b.bytes() < factory.shared_bytes() / 3);
}

BOOST_AUTO_TEST_CASE(a_trained_model_leaves_its_training_behind) {
  using small_type = model<net_of_squares, input<"N", 1, 6, 6>>;
  small_type net({.seed = 1}), fresh({.seed = 1});
  fit(net, squares(30, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 10});
  auto x = random_tensor<tensor<float, extents<dyn, 1, 6, 6>>>({4, 1, 6, 6}, 2);
  auto expected = net(x);
  reference_factory<net_of_squares, input<"N", 1, 6, 6>> factory(net);
  BOOST_TEST(factory.shared_bytes() == fresh.parameters().bytes());
  BOOST_TEST(same_bits(factory.create()(x), expected));
}

BOOST_AUTO_TEST_CASE(threads_create_and_run_at_once) {
  net_type net({.seed = 4});
  auto x = random_tensor<images>({6, 1, 28, 28}, 1);
  auto expected = net(x);
  factory_type factory(std::move(net));
  std::vector<int> wrong(6, 0);
  parallel_workers(6, [&](int w) {
    for (int round = 0; round < 3; ++round) {
      auto r = factory.create();
      for (std::int64_t n : {1, 6, 1 + w % 3})
        for (int again = 0; again < 2; ++again)
          wrong[static_cast<std::size_t>(w)] += !same_bits(r(x.rows(0, n)), expected.rows(0, n));
    }
  });
  for (int n : wrong) BOOST_TEST(n == 0);
}

BOOST_AUTO_TEST_CASE(copies_of_a_model_run_on_threads_of_their_own) {
  net_type net({.seed = 4, .threads = 2});
  auto x = random_tensor<images>({8, 1, 28, 28}, 1);
  auto expected = net(x);
  std::vector<net_type> copies(3, net);
  std::vector<int> wrong(3, 0);
  parallel_workers(3, [&](int w) {
    for (int round = 0; round < 4; ++round) wrong[static_cast<std::size_t>(w)] += !same_bits(copies[static_cast<std::size_t>(w)](x), expected);
  });
  for (int n : wrong) BOOST_TEST(n == 0);
}

BOOST_AUTO_TEST_SUITE_END()
