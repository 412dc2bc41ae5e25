// A repeated run of a model only computes: no allocation, no lock, no system call.
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <unistd.h>

#include "steady_state.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

// A net over sequences of 3 numbers or of tokens, for one sample at a time.
template <const auto& Net, class In> void makes_no_call(std::size_t width) {
  model<Net, In> net({.seed = 3});
  auto s = stream(reference_factory<Net, In>(net).create(), {.positions = 10});
  std::vector<std::conditional_t<In::has_element, typename In::element, float>> in(s.input_size(), {1});
  std::vector<float> out(width);
  bool ran = true;
  auto run = [&] {
    for (int i = 0; i < 10; ++i) ran = s.step(in, out) && ran;
    s.reset();
  };
  static_assert(noexcept(s.step(in, out)) && noexcept(s.reset()));
  run();
  BOOST_TEST((steady_state::count(run) == steady_state::counts{}));
  BOOST_TEST(steady_state::makes_no_system_call(run));
  BOOST_TEST(ran);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(steady_states, *boost::unit_test::enable_if<steady_state::observed>())

BOOST_AUTO_TEST_CASE(the_observer_sees_what_is_there) {
  std::mutex mutex;
  int* volatile kept = nullptr;
  auto made = steady_state::count([&] { kept = new int(1); });
  delete kept;
  BOOST_TEST(made.allocations == 1);
  BOOST_TEST(steady_state::count([&] { std::lock_guard lock(mutex); }).locks == 1);
  BOOST_TEST(steady_state::makes_no_system_call([] {}));
  BOOST_TEST(!steady_state::makes_no_system_call([] { (void)::getppid(); }));
  BOOST_TEST(
      !steady_state::makes_no_system_call([&] { kept = static_cast<int*>(std::malloc(std::size_t(64) << 20)); }));
}

BOOST_AUTO_TEST_CASE(inference) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 1});
  auto one = random_tensor<images>({1, 1, 28, 28}, 1), many = random_tensor<images>({64, 1, 28, 28}, 1);
  tensor<float, extents<dyn, 10>> small(1, 10), large(64, 10);
  auto run = [&] {
    for (int i = 0; i < 3; ++i) {
      net.run(one, small);
      net.run(many, large);
    }
  };
  run();
  BOOST_TEST((steady_state::count(run) == steady_state::counts{}));
  BOOST_TEST(steady_state::makes_no_system_call(run));
}

BOOST_AUTO_TEST_CASE(a_step_of_a_stream) {
  static constexpr auto voice =
      sequential(nn::lstm{.input_size = 3, .hidden_size = 8, .num_layers = 2}, nn::gru{8, 5}, nn::linear{5, 2});
  makes_no_call<voice, input<"T", 1, 3>>(2);
}

BOOST_AUTO_TEST_CASE(a_step_of_a_stream_of_causal_convolutions) {
  static constexpr auto tcn =
      sequential(nn::conv1d{.in_channels = 3, .out_channels = 8, .causal = true}, nn::relu{},
                 nn::conv1d{.in_channels = 8, .out_channels = 8, .dilation = 2, .causal = true}, nn::pad{.before = 4},
                 nn::conv1d{.in_channels = 8, .out_channels = 4, .dilation = 2}, nn::permute{axes(2, 0, 1)},
                 nn::gru{4, 5}, nn::linear{5, 2});
  makes_no_call<tcn, input<1, 3, "T">>(2);
}

BOOST_AUTO_TEST_CASE(a_step_of_a_decoder) {
  static constexpr auto decoder = sequential(
      nn::embedding{9, 16},
      nn::residual{sequential(nn::rms_norm{{16}},
                              nn::grouped_query_attention{.embed_dim = 16, .num_heads = 4, .num_kv_heads = 2})},
      nn::residual{sequential(nn::rms_norm{{16}}, nn::swiglu{.in_features = 16, .hidden_features = 24})},
      nn::linear{16, 9});
  makes_no_call<decoder, port_input<"input", std::int64_t, 1, "T">>(9);
}

BOOST_AUTO_TEST_CASE(a_draw_by_scores) {
  std::vector<float> scores(300);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i * 37 % 23) / 5;
  sampler draw({.temperature = 0.8, .top_k = 40, .top_p = 0.95});
  std::int64_t sum = 0;
  auto run = [&] {
    for (int i = 0; i < 10; ++i) sum += draw(scores);
  };
  run();
  BOOST_TEST((steady_state::count(run) == steady_state::counts{}));
  BOOST_TEST(steady_state::makes_no_system_call(run));
  BOOST_TEST(sum > 0);
}

BOOST_AUTO_TEST_CASE(a_training_step) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 1});
  optim::adam adam;
  trainer train(
      net.core(), [](view<const value> y, view<const value> labels) { return loss::cross_entropy{}(y[0], labels[0]); },
      trainer::step_rule::of(adam), adam.lr);
  session plans({std::shared_ptr<const program>(), &train.step_program()}, {&net.parameters(), nullptr},
                net.core().where());
  auto x = random_tensor<images>({64, 1, 28, 28}, 1);
  std::vector<std::int64_t> labels(64);
  for (std::size_t i = 0; i < 64; ++i) labels[i] = static_cast<std::int64_t>(i % 10);
  float rate = 1e-3f, mean = 0;
  std::int64_t hits = 0;
  const shape extents[] = {x.shape(), shape{64}, shape{}};
  auto run = [&] {
    for (int i = 0; i < 3; ++i) {
      executor& e = plans.at({extents, 3});
      e.bind_input(0, x.data().data());
      e.bind_input(1, labels.data());
      e.bind_input(2, &rate);
      e.bind_output(0, &mean);
      e.bind_output(1, &hits);
      e.run();
    }
  };
  run();
  const float before = mean;
  BOOST_TEST((steady_state::count(run) == steady_state::counts{}));
  BOOST_TEST(mean < before);  // it did train
  BOOST_TEST(steady_state::makes_no_system_call(run));
}

BOOST_AUTO_TEST_SUITE_END()
