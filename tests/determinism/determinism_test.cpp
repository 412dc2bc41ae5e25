// A sample's result has the same bits in any circumstances: run, number of threads, reference model, position in the
// batch, age of plan and memory, other samples merged with it. At least 10,000 comparisons.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

constexpr auto convolutions = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::batch_norm2d{6}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 3, .padding = 1},
    nn::relu{}, nn::flatten{}, nn::linear{.in_features = 16 * 7 * 7, .out_features = 33}, nn::tanh{},
    nn::linear{.in_features = 33, .out_features = 10}, nn::softmax{});
// One image is split by rows, and its filter has more elements than its result.
constexpr auto one_channel =
    sequential(nn::conv2d{.in_channels = 32, .out_channels = 1, .kernel_size = 9, .padding = 4}, nn::relu{});
constexpr auto perceptron = sequential(nn::linear{.in_features = 100, .out_features = 257}, nn::relu{},
                                       nn::layer_norm{.normalized_shape = {257}},
                                       nn::linear{.in_features = 257, .out_features = 3}, nn::log_softmax{});
constexpr auto gates = sequential(nn::gru{.input_size = 12, .hidden_size = 20, .batch_first = true},
                                  nn::linear{.in_features = 20, .out_features = 5});
// A row of this size is split, too, and so is each step of the sequence.
constexpr auto wide_gates = sequential(nn::lstm{.input_size = 12, .hidden_size = 200, .batch_first = true},
                                       nn::linear{.in_features = 200, .out_features = 5});
// Products before and after a depthwise convolution, a transposed one, and padded pools.
constexpr auto shrinks_and_grows =
    sequential(nn::conv2d{.in_channels = 3, .out_channels = 24, .kernel_size = 3, .stride = 2, .padding = 1},
               nn::relu6{}, nn::conv2d{.in_channels = 24, .out_channels = 72, .kernel_size = 1}, nn::relu{},
               nn::conv2d{.in_channels = 72, .out_channels = 72, .kernel_size = 3, .padding = 1, .groups = 72},
               nn::relu{}, nn::conv2d{.in_channels = 72, .out_channels = 40, .kernel_size = 1},
               nn::max_pool2d{.kernel_size = 3, .stride = 2, .padding = 1}, nn::gelu{},
               nn::conv_transpose2d{.in_channels = 40, .out_channels = 33, .kernel_size = 2, .stride = 2},
               nn::avg_pool2d{.kernel_size = 3, .stride = 3, .padding = 1});
constexpr auto heads =
    sequential(nn::transformer_encoder_layer{.d_model = 24, .nhead = 3, .dim_feedforward = 40, .causal = true});

constexpr std::int64_t max_batch = 7;

// A net as a program, its states, and the extents of one sample.
struct net {
  std::string name;
  std::shared_ptr<const ir::program> inference;
  std::shared_ptr<parameter_store> states;
  shape sample;

  ir::session session(std::shared_ptr<context> where) const {
    return ir::session(inference, {states.get(), nullptr}, std::move(where));
  }
};
shape batch_of(std::int64_t n, const shape& sample) {
  shape s{n};
  for (int i = 0; i < sample.rank; ++i) s.push_back(sample[i]);
  return s;
}
any_tensor numbers(const shape& s, int seed) {
  any_tensor t(tensor_type{dtype::float32, s});
  auto* out = reinterpret_cast<float*>(t.mutable_data());
  philox stream(seed, 3);
  for (std::int64_t i = 0; i < s.size(); ++i) out[i] = 2 * stream.uniform<float>(static_cast<std::uint64_t>(i)) - 1;
  return t;
}
template <class Model> net net_of(std::string name, shape sample, std::int64_t seed) {
  const auto core = std::make_shared<model_core>(std::move(Model({.seed = seed}).core()));
  return {std::move(name), core->inference_program(), {core, &core->parameters()}, sample};
}
template <class Model> net int8_of(std::string name, shape sample, std::int64_t seed) {
  const Model net({.seed = seed});
  const std::vector<std::vector<any_tensor>> samples{{numbers(batch_of(5, sample), 7)}};
  const auto q = std::make_shared<quantized_program>(quantize(net, profile(net, samples)));
  BOOST_TEST(q->report.quantized > 3);
  return {std::move(name), q->program, {q, &q->states}, sample};
}
std::vector<net> all_nets() {
  return {net_of<model<convolutions, input<"N", 1, 14, 14>>>("convolutions", {1, 14, 14}, 1),
          net_of<model<one_channel, input<"N", 32, 24, 24>>>("one channel", {32, 24, 24}, 5),
          net_of<model<perceptron, input<"N", 100>>>("perceptron", {100}, 2),
          net_of<model<gates, input<"N", "T", 12>>>("gates", {9, 12}, 3),
          net_of<model<heads, input<"N", "T", 24>>>("heads", {11, 24}, 4),
          net_of<model<wide_gates, input<"N", "T", 12>>>("wide gates", {4, 12}, 6),
          net_of<model<shrinks_and_grows, input<"N", 3, 57, 57>>>("shrinks and grows", {3, 57, 57}, 7),
          int8_of<model<shrinks_and_grows, input<"N", 3, 57, 57>>>("shrinks and grows in int8", {3, 57, 57}, 7)};
}

// Samples [first, first + n) of a batch.
any_tensor samples_of(const any_tensor& batch, std::int64_t first, std::int64_t n) {
  shape s = batch.shape();
  const auto row = static_cast<std::size_t>(batch.bytes()) / static_cast<std::size_t>(s.at(0));
  s[0] = n;
  return any_tensor(batch.memory(), {batch.element(), s},
                    static_cast<std::size_t>(batch.data() - static_cast<const std::byte*>(batch.memory().data())) +
                        static_cast<std::size_t>(first) * row);
}
// Calls the lanes in order, the last one first.
struct backwards {
  int concurrency() const { return 3; }
  template <class F> void bulk(std::size_t n, const F& f) {
    while (n-- > 0) f(n);
  }
};

template <class Runner> any_tensor run(Runner& runner, const any_tensor& x) {
  const shape s[] = {x.shape()};
  executor& e = runner.at(s);
  any_tensor y(e.plan().output_types()[0]);
  e.bind_input(0, x.data());
  e.bind_output(0, y.mutable_data());
  e.run();
  return y;
}

struct tally {
  std::int64_t compared = 0, different = 0;
  // Compares each sample of y with the batch's samples from `first` on.
  void compare(const any_tensor& y, const any_tensor& expected, std::int64_t first) {
    const auto row = expected.bytes() / static_cast<std::size_t>(expected.shape().at(0));
    for (std::int64_t i = 0; i < y.shape().at(0); ++i) {
      ++compared;
      different += std::memcmp(y.data() + static_cast<std::size_t>(i) * row,
                               expected.data() + static_cast<std::size_t>(first + i) * row, row) != 0;
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_sample_has_the_same_bits_whatever_surrounds_it) {
  tally t;
  auto nets = all_nets();
  auto arenas = std::make_shared<arena_pool>();
  struct served {
    std::unique_ptr<program_factory> factory;
    std::vector<program_reference> references;
  };
  std::vector<served> all;
  for (auto& n : nets) {
    all.push_back({std::make_unique<program_factory>(n.inference, *n.states, reference_options{.arenas = arenas}), {}});
    for (int i = 0; i < 4; ++i) all.back().references.push_back(all.back().factory->create());
  }
  for (int round = 0; round < 9; ++round) {
    std::vector<any_tensor> x, expected;
    for (auto& n : nets) {
      x.push_back(numbers(batch_of(max_batch, n.sample), 100 + round));
      auto alone = n.session(std::make_shared<context>(1, target_isa()));
      expected.push_back(run(alone, x.back()));
    }
    for (std::size_t k = 0; k < nets.size(); ++k) {
      const auto before = t.different;
      for (int threads = 1; threads <= 8; ++threads) {
        auto runs = nets[k].session(std::make_shared<context>(threads, target_isa()));
        for (std::int64_t n : {max_batch, std::int64_t{1}, max_batch - 1}) {
          const std::int64_t first = round % (max_batch - n + 1);
          t.compare(run(runs, samples_of(x[k], first, n)), expected[k], first);
          t.compare(run(runs, samples_of(x[k], first, n)), expected[k], first);
        }
      }
      BOOST_TEST(t.different == before, nets[k].name << ": threads");
      auto scheduled = nets[k].session(std::make_shared<context>(backwards{}));
      t.compare(run(scheduled, x[k]), expected[k], 0);
      BOOST_TEST(t.different == before, nets[k].name << ": a scheduler");
    }
    // references of several nets alternate, in memory that they lend each other
    for (std::size_t i = 0; i < 4; ++i)
      for (std::int64_t n = 1; n <= max_batch; ++n)
        for (std::size_t k = 0; k < nets.size(); ++k) {
          const std::int64_t first =
              static_cast<std::int64_t>(i + static_cast<std::size_t>(round)) % (max_batch - n + 1);
          const any_tensor in[] = {samples_of(x[k], first, n)};
          const auto before = t.different;
          t.compare(all[k].references[i](in)[0], expected[k], first);
          BOOST_TEST(t.different == before, nets[k].name << ": reference " << i << ", batch " << n);
        }
    for (std::size_t k = 0; k < nets.size(); ++k) {
      const any_tensor in[] = {x[k]};
      t.compare(program_factory(nets[k].inference, *nets[k].states).create()(in)[0], expected[k], 0);
    }
  }
  // samples evaluated one by one, merged into rows
  for (int round = 0; round < 12; ++round) {
    context where(1 + round % 3, target_isa());
    const auto w = numbers({30, 41}, 1).as<float, extents<dyn, dyn>>(),
               v = numbers({41, 8}, 2).as<float, extents<dyn, dyn>>();
    const auto f = [&](const matrix<float>& x) { return softmax(matmul(tanh(matmul(x, w)), v)); };
    eval_plan plan(where);
    std::vector<matrix<float>> x;
    std::vector<handle<matrix<float>>> results;
    for (int i = 0; i < 40; ++i) x.push_back(numbers({1 + i % 2, 30}, 1000 * round + i).as<float, extents<dyn, dyn>>());
    for (const auto& one : x) results.push_back(plan.add(f(one)));
    plan.run();
    BOOST_TEST(plan.counters().merged > 0);
    for (std::size_t i = 0; i < x.size(); ++i) t.compare(results[i].value(), evaluate(f(x[i])), 0);
  }
  BOOST_TEST(t.different == 0);
  BOOST_TEST(t.compared >= 10'000);
  BOOST_TEST_MESSAGE(t.compared << " comparisons");
}
