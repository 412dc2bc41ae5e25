// Stopped runs of models, reference models, streams and trainings: state unchanged, and ready to run again.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

import lamina;

#include "nets.h"
#include "stop.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;
using engine_test::after, engine_test::asks, engine_test::never, engine_test::stopped_after;

namespace {

inline constexpr auto noisy = sequential(sublayer<"fc">(nn::linear{4, 6}), nn::tanh{},
                                         sublayer<"noise">(nn::dropout{0.5}), sublayer<"head">(nn::linear{6, 3}));
using noisy_type = model<noisy, input<"N", 4>>;
using noisy_factory = reference_factory<noisy, input<"N", 4>>;
using rows = matrix<float, dyn, 4>;

inline constexpr auto voice =
    sequential(nn::lstm{.input_size = 3, .hidden_size = 8, .num_layers = 2}, nn::linear{8, 2}, nn::tanh{});
inline constexpr auto causal =
    sequential(nn::conv1d{.in_channels = 3, .out_channels = 8, .causal = true}, nn::relu{},
               nn::conv1d{.in_channels = 8, .out_channels = 2, .dilation = 2, .causal = true});

// A stream stopped in each of its steps gives the results of one that is never stopped.
template <class Factory> void stream_goes_on(const Factory& factory, std::size_t in, std::size_t out) {
  auto plain = stream(factory.create(), {.block = 1}), tried = stream(factory.create(), {.block = 1});
  std::vector<float> x(in), wanted(out), y(out);
  int stopped = 0;
  for (int t = 0; t < 12; ++t) {
    for (std::size_t i = 0; i < in; ++i) x[i] = static_cast<float>((t * 7 + static_cast<int>(i) * 3) % 11) / 5.f - 1.f;
    BOOST_REQUIRE(plain.step(std::span<const float>(x), std::span(wanted)));
    bool ran = false;
    for (int i = 0; !ran; ++i) {
      std::atomic<int> left{i};
      const stop_scope scope(after{&left});
      const auto before = tried.position();
      ran = tried.step(std::span<const float>(x), std::span(y));
      stopped += !ran;
      BOOST_TEST(tried.position() == before + ran);
    }
    BOOST_TEST((std::memcmp(y.data(), wanted.data(), out * sizeof(float)) == 0));
  }
  BOOST_TEST(stopped >= 12);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stopped_nets)

BOOST_AUTO_TEST_CASE(calls_of_models) {
  noisy_type net({.seed = 7}), other({.seed = 7});
  const auto x = random_tensor<rows>({5, 4}, 1);
  const int all = asks([&] { net(x); });
  other(x);
  BOOST_TEST(all > 2);
  for (int i = 0; i < all; ++i) {
    const auto message = stopped_after(i, [&] { net(x); });
    if (i == 0) BOOST_TEST(holds(message, "sublayer `fc` (linear): "));
    BOOST_TEST(holds(message, "the run was stopped"));
  }
  BOOST_TEST(same_bits(net.parameters(), other.parameters()));
  BOOST_TEST(same_bits(net(x), other(x)));
}

BOOST_AUTO_TEST_CASE(reference_models_and_programs) {
  const noisy_factory factory{noisy_type({.seed = 7})};
  const noisy_type of({.seed = 7});
  const program_factory programs(of.core().inference_program(), of.parameters());
  auto plain = factory.create(), tried = factory.create();
  auto program_tried = programs.create();
  const auto x = random_tensor<rows>({5, 4}, 1);
  const any_tensor in[] = {x};
  const auto wanted = plain(x);
  BOOST_TEST(stopped_after(1, [&] { tried(x); }) != "");
  BOOST_TEST(same_bits(tried(x), wanted));
  BOOST_TEST(stopped_after(1, [&] { program_tried(in); }) != "");
  BOOST_TEST(same_bits(program_tried(in)[0].as<float, extents<dyn, 3>>(), wanted));
}

BOOST_AUTO_TEST_CASE(streams) {
  stream_goes_on(reference_factory<voice, input<"T", 1, 3>>(model<voice, input<"T", 1, 3>>({.seed = 3})), 3, 2);
  stream_goes_on(reference_factory<causal, input<1, 3, "T">>(model<causal, input<1, 3, "T">>({.seed = 3})), 3, 2);
}

BOOST_AUTO_TEST_CASE(steps_of_a_training) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 1}), other({.seed = 1});
  training step(net, loss::cross_entropy{}, optim::adam{.lr = 1e-3}),
      plain(other, loss::cross_entropy{}, optim::adam{.lr = 1e-3});
  const auto x = random_tensor<images>({8, 1, 28, 28}, 1);
  vector<std::int64_t> labels(8);
  const int all = asks([&] { step(x, labels); });
  plain(x, labels);
  BOOST_TEST(all > 20);
  for (int i = 0; i < all; i += 3)
    BOOST_TEST(holds(stopped_after(i, [&] { step(x, labels); }), "the run was stopped before this operation"));
  BOOST_TEST(same_bits(net.parameters(), other.parameters()));
  BOOST_TEST(step(x, labels) == plain(x, labels));
  BOOST_TEST(same_bits(net.parameters(), other.parameters()));
}

BOOST_AUTO_TEST_CASE(a_fit_from_another_thread) {
  static constexpr auto net_of_squares =
      sequential(nn::flatten{}, sublayer<"hidden">(nn::linear{.in_features = 36, .out_features = 16}), nn::relu{},
                 sublayer<"head">(nn::linear{.in_features = 16, .out_features = 3}));
  using net_type = model<net_of_squares, input<"N", 1, 6, 6>>;
  const auto data = squares(60, 1);
  for (int threads : {1, 3}) {
    net_type net({.seed = 1, .threads = threads});
    std::atomic<bool> stop{false};
    struct flag {
      const std::atomic<bool>* is;
      bool stop_requested() const noexcept { return is->load(); }
    };
    std::atomic<int> batches{0};
    std::thread other([&] {
      while (batches < 5) std::this_thread::yield();
      stop = true;
    });
    std::string message;
    try {
      const stop_scope scope(flag{&stop});
      fit(net, data, loss::cross_entropy{}, optim::sgd{},
          {.epochs = 1000000, .batch = 16, .observer = [&](const training_progress&) { return ++batches, true; }});
    } catch (const stopped_error& e) { message = e.what(); }
    other.join();
    BOOST_TEST(holds(message, "fit: stopped in epoch "));
    BOOST_TEST(holds(message, ", before its update: "));
    // Exactly the reported number of steps, none of them partial.
    net_type again({.seed = 1});
    const int done = batches;
    int seen = 0;
    fit(again, data, loss::cross_entropy{}, optim::sgd{},
        {.epochs = 1000000, .batch = 16, .observer = [&](const training_progress&) { return ++seen < done; }});
    BOOST_TEST(same_bits(net.parameters(), again.parameters()));
  }
}

BOOST_AUTO_TEST_CASE(nets_of_a_workspace) {
  graph::workspace ws;
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {3, 3}}), count = n.external("count", {dtype::float32, {}});
  n.output("y", matmul(softmax(x), x));
  n.assign(count, count + 1);
  ws.feed("x", matrix<float>{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
  ws.feed("count", scalar<float>(0));
  ws.create(n);
  ws.run("n", 2);
  BOOST_TEST(holds(stopped_after(1, [&] { ws.run("n", 5); }), "the run was stopped before this operation"));
  const auto now = ws.fetch("count").elements<float>()[0];
  BOOST_TEST(now == 2);
  ws.run("n");
  BOOST_TEST(ws.fetch("count").elements<float>()[0] == 3);
}

BOOST_AUTO_TEST_SUITE_END()
