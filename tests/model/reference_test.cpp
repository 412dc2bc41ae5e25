// Reference models: the model's bits from shared weights, created and run by any number of threads.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
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

// Rejects mutating functions, and inputs other than the model's.
template <class R>
concept Changeable = requires(R& r) { r.parameters(); } || requires(R& r) { r.core(); } ||
                     requires(R& r) { save(r, std::string()); } || requires(R& r) { load(r, std::string()); } ||
                     requires(R& r, const image_dataset& d) { fit(r, d, loss::cross_entropy{}, optim::sgd{}); };
static_assert(Changeable<net_type> && !Changeable<reference>);
static_assert(std::invocable<reference&, images> &&
              !std::invocable<reference&, tensor<double, extents<dyn, 1, 28, 28>>> &&
              !std::invocable<reference&, tensor<float, extents<dyn, 1, 32, 32>>>);

constexpr auto net_of_squares =
    sequential(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}, nn::batch_norm2d{4}, nn::relu{},
               nn::flatten{}, nn::dropout{0.2}, nn::linear{.in_features = 64, .out_features = 3});

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
  // The factory has a separate copy.
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
  auto message = error_of([&] { factory_type::from_file(dir / "absent"); });
  BOOST_TEST(holds(message, "file_error: " + (dir / "absent")));
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

// Each weight is stored once; plans of other shapes, updates and other references share it.
BOOST_AUTO_TEST_CASE(weights_that_are_packed_are_freed) {
  static constexpr auto wide = sequential(nn::linear{.in_features = 300, .out_features = 2000}, nn::relu{},
                                          nn::linear{.in_features = 2000, .out_features = 300});
  using rows = matrix<float, dyn, 300>;
  using wide_model = model<wide, input<"N", 300>>;
  auto net = std::make_unique<wide_model>(model_options{.seed = 1});
  const wide_model other({.seed = 2});
  const auto few = random_tensor<rows>({3, 300}, 1), many = random_tensor<rows>({4100, 300}, 2);  // many: not packed
  const auto expected_few = (*net)(few), expected_many = (*net)(many);
  const auto before = memory::counters().current;
  auto of_net = std::make_unique<wide_model>(model_options{.seed = 1});
  reference_factory<wide, input<"N", 300>> factory(std::move(*of_net));
  of_net.reset();
  {
    auto first = factory.create(), second = factory.create();
    BOOST_TEST(same_bits(first(few), expected_few));
    BOOST_TEST(same_bits(second(few), expected_few));
    const auto held = memory::counters().current - before;
    BOOST_TEST(held < static_cast<std::int64_t>(factory.shared_bytes()) * 3 / 2);
    BOOST_TEST(same_bits(second(many), expected_many));
    BOOST_TEST(same_bits(first(many), expected_many));
    BOOST_TEST(same_bits(first(few), expected_few));
    factory.update(other.parameters());
    auto fresh = std::make_unique<wide_model>(model_options{.seed = 2});
    BOOST_TEST(same_bits(first(few), (*fresh)(few)));
    BOOST_TEST(same_bits(second(many), (*fresh)(many)));
  }
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

// Batch norms in every foldable position, with nontrivial running statistics.
template <const auto& Net, class Input, class X = tensor<double, extents<dyn, 2, 6, 6>>>
void folds(std::int64_t factors, const shape& of_x = {5, 2, 6, 6}) {
  using net_type = model<Net, Input, policies<element<double>>>;
  net_type net({.seed = 3});
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    auto& p = net.parameters()[i];
    auto* v = reinterpret_cast<double*>(p.mutable_data());
    philox stream(static_cast<std::int64_t>(i), 9);
    for (std::int64_t k = 0; k < p.value().shape().size(); ++k)
      v[k] = 0.25 + stream.uniform<double>(static_cast<std::uint64_t>(k));
    p.changed();
  }
  auto x = random_tensor<X>(of_x, 2);
  auto expected = net(x);
  using factory_type = reference_factory<Net, Input, policies<element<double>>>;
  factory_type plain(net), folded(net, {.optimize = true});
  BOOST_TEST(plain.report().folded == 0);
  BOOST_TEST(folded.report().folded == factors);
  BOOST_TEST(folded.shared_bytes() <= plain.shared_bytes());
  BOOST_TEST(same_bits(plain.create()(x), expected));
  auto a = folded.create(), b = folded.create();
  for (std::int64_t n : {5, 1, 3}) {
    auto y = a(x.rows(0, n));
    BOOST_TEST(same_bits(b(x.rows(0, n)), y));
    for (std::size_t i = 0; i < y.data().size(); ++i) BOOST_REQUIRE_CLOSE(y.data()[i], expected.data()[i], 1e-10);
  }
  BOOST_TEST(same_bits(net(x), expected));
}

constexpr auto after_convolutions =
    sequential(nn::conv2d{.in_channels = 2, .out_channels = 4, .kernel_size = 3}, nn::batch_norm2d{4}, nn::relu{},
               nn::conv2d{.in_channels = 4, .out_channels = 6, .kernel_size = 3, .groups = 2, .bias = false},
               nn::batch_norm2d{.num_features = 6, .affine = false}, nn::flatten{},
               nn::linear{.in_features = 24, .out_features = 3});
constexpr auto before_convolutions = sequential(nn::batch_norm2d{2}, nn::relu{}, nn::batch_norm2d{2},
                                                nn::conv2d{.in_channels = 2, .out_channels = 4, .kernel_size = 3});

// The convolution has two readers, the batch norm and the sum: it is not folded.
struct beside_itself {
  constexpr auto forward(auto& s, const auto& x) const {
    auto y = s("conv", nn::conv2d{.in_channels = 2, .out_channels = 4, .kernel_size = 3}, x);
    return s("norm", nn::batch_norm2d{4}, y) + y;
  }
};
constexpr auto read_twice = sequential(beside_itself{});

// A linear layer with a factor and a term for each feature.
struct gained_linear {
  constexpr auto forward(auto& s, const auto& x) const {
    auto y = s("linear", nn::linear{.in_features = 72, .out_features = 3}, lamina::flatten(x));
    return y * s.parameter("gain", shape{3}, initializer::constant(1)) -
           s.parameter("term", shape{1, 3}, initializer::constant(0));
  }
};
constexpr auto after_linear = sequential(gained_linear{});

constexpr auto rows_normed =
    sequential(nn::linear{.in_features = 6, .out_features = 5}, nn::batch_norm1d{5}, nn::relu{},
               nn::linear{.in_features = 5, .out_features = 4, .bias = false}, nn::batch_norm1d{4});
constexpr auto sequences_normed =
    sequential(nn::conv1d{.in_channels = 2, .out_channels = 4, .kernel_size = 3}, nn::batch_norm1d{4}, nn::relu{},
               nn::conv1d{.in_channels = 4, .out_channels = 3, .kernel_size = 3, .bias = false}, nn::batch_norm1d{3});
struct rows_beside_themselves {
  constexpr auto forward(auto& s, const auto& x) const {
    auto y = s("linear", nn::linear{.in_features = 6, .out_features = 4}, x);
    return s("norm", nn::batch_norm1d{4}, y) + y;
  }
};
constexpr auto rows_read_twice = sequential(rows_beside_themselves{});

BOOST_AUTO_TEST_CASE(batch_norms_are_folded_into_the_weights_before_them) {
  folds<after_convolutions, input<"N", 2, 6, 6>>(4);
  folds<before_convolutions, input<"N", 2, 6, 6>>(0);
  folds<read_twice, input<"N", 2, 6, 6>>(0);
  folds<after_linear, input<"N", 2, 6, 6>>(2);
  // Layers over rows and over sequences, with views between them; after a product without bias the term becomes one.
  using some_rows = matrix<double, dyn, 6>;
  using sequences = tensor<double, extents<dyn, 2, 12>>;
  folds<rows_normed, input<"N", 6>, some_rows>(3, {5, 6});
  folds<rows_normed, input<dyn, 6>, some_rows>(3, {5, 6});
  folds<rows_read_twice, input<"N", 6>, some_rows>(0, {5, 6});
  folds<sequences_normed, input<"N", 2, 12>, sequences>(3, {5, 2, 12});
  folds<sequences_normed, input<"N", 2, "L">, sequences>(3, {5, 2, 12});
}

BOOST_AUTO_TEST_CASE(a_folded_network_in_float_and_its_errors) {
  model<net_of_squares, input<"N", 1, 6, 6>> trained({.seed = 1});
  fit(trained, squares(60, 1), loss::cross_entropy{}, optim::adam{}, {.epochs = 2, .batch = 10});
  test_files::folder dir;
  save(trained, dir / "net.safetensors");
  auto factory = reference_factory<net_of_squares, input<"N", 1, "H", "W">>::from_file(dir / "net.safetensors",
                                                                                       {.optimize = true});
  BOOST_TEST(factory.report().folded == 2);
  auto x = random_tensor<tensor<float, extents<dyn, 1, 6, 6>>>({40, 1, 6, 6}, 2);
  auto y = factory.create()(x), expected = trained(x);
  float max = 0;
  for (std::size_t i = 0; i < y.data().size(); ++i) max = std::max(max, std::abs(y.data()[i] - expected.data()[i]));
  BOOST_TEST(max < 1e-5f);
  auto r = factory.create();
  auto message = error_of([&] { r(tensor<float, extents<dyn, 1, dyn, dyn>>(2, 1, 8, 8)); });
  BOOST_TEST(message ==
             "shape_error: sublayer `5` (linear): linear expects 64 input features but is given 144, shape [2x144]");
  BOOST_TEST(same_bits(r(x), y));
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
    for (int round = 0; round < 4; ++round)
      wrong[static_cast<std::size_t>(w)] += !same_bits(copies[static_cast<std::size_t>(w)](x), expected);
  });
  for (int n : wrong) BOOST_TEST(n == 0);
}

BOOST_AUTO_TEST_SUITE_END()
