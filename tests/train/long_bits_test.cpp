// 200 steps of nets like those of the samples: the same bits for one to four threads, after resuming, and for one, two,
// four and eight replicas.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"
#include "thread_replicas.h"

using namespace lamina;

namespace {

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::int64_t batches = 3, epochs = 2;  // each step is slow
#else
constexpr std::int64_t batches = 10, epochs = 20;
#endif
constexpr std::int64_t batch = 16, samples = batches * batch;

/// The tokens of a message and its class: ids of the class are more frequent.
struct messages {
  std::int64_t size() const { return samples; }
  std::pair<std::vector<std::int64_t>, std::int64_t> operator[](std::int64_t i) const {
    const philox random(3, 0, i);
    const auto below = [&](std::uint64_t at, float n) { return static_cast<std::int64_t>(random.uniform(at) * n); };
    const std::int64_t label = below(0, 3);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(2 + below(1, 6)));
    for (std::uint64_t k = 0; auto& id : ids) k += 2, id = 1 + (below(k, 4) ? 5 * label : 0) + below(k + 1, 5);
    return {ids, label};
  }
};
/// Numbers and their target: a class, a sum, or a class for each.
template <class Target, std::int64_t... Extents> struct drawn {
  std::int64_t classes = 0;
  std::int64_t size() const { return samples; }
  std::pair<tensor<float, extents<Extents...>>, Target> operator[](std::int64_t i) const {
    const philox random(4, 0, i);
    tensor<float, extents<Extents...>> x;
    for (std::uint64_t at = 0; float& v : x.writable()) v = random.uniform(at++);
    const auto class_of = [this](float v) { return static_cast<std::int64_t>(v * static_cast<float>(classes)); };
    if constexpr (std::is_same_v<Target, std::int64_t>) return {x, class_of(x.data()[0])};
    else if constexpr (std::is_same_v<typename Target::element_type, std::int64_t>) {
      Target y;
      std::ranges::transform(x.data(), y.writable().begin(), class_of);
      return {x, y};
    } else return {x, Target{x.data()[0] + x.data()[1] / 2}};
  }
};

constexpr auto words = sequential(nn::embedding_bag{.num_embeddings = 16, .embedding_dim = 8, .padding_idx = 0},
                                  nn::dropout{.probability = 0.1}, nn::linear{.in_features = 8, .out_features = 3});
constexpr nn::transformer_encoder_layer block{
    .d_model = 16, .nhead = 2, .dim_feedforward = 32, .dropout = 0.1, .norm_first = true, .causal = true};
constexpr auto language = sequential(nn::embedding{.num_embeddings = 24, .embedding_dim = 16}, block, block,
                                     nn::layer_norm{{16}}, nn::linear{.in_features = 16, .out_features = 24});
constexpr auto table = sequential(nn::linear{.in_features = 5, .out_features = 24}, nn::relu{},
                                  nn::linear{.in_features = 24, .out_features = 1});
constexpr auto sounds =
    sequential(nn::unsqueeze{{1}}, nn::batch_norm2d{.num_features = 1},
               nn::conv2d{.in_channels = 1, .out_channels = 8, .kernel_size = 5, .padding = 2}, nn::relu{},
               nn::max_pool2d{}, nn::flatten{}, nn::linear{.in_features = 8 * 6 * 4, .out_features = 4});
template <Layer Body> struct beside {
  Body body;
  constexpr auto forward(auto& s, const auto& x) const { return concat<1>(x, s("body", body, x)); }
};
constexpr auto normalized(std::int64_t in, std::int64_t out) {
  return sequential(nn::conv2d{.in_channels = in, .out_channels = out, .padding = 1, .bias = false},
                    nn::batch_norm2d{.num_features = out}, nn::relu{});
}
constexpr auto segmentation = sequential(
    normalized(1, 8),
    beside{sequential(nn::max_pool2d{}, normalized(8, 16), normalized(16, 16),
                      nn::conv_transpose2d{.in_channels = 16, .out_channels = 8, .kernel_size = 2, .stride = 2})},
    nn::conv2d{.in_channels = 16, .out_channels = 3, .kernel_size = 1}, nn::permute{{0, 2, 3, 1}});
constexpr auto pictures =
    sequential(nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
               nn::max_pool2d{}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 3}, nn::relu{},
               nn::flatten{}, nn::linear{.in_features = 16 * 4 * 4, .out_features = 32}, nn::relu{},
               nn::linear{.in_features = 32, .out_features = 4});

/// `make` returns the net to train for a number of threads.
template <class Make, class Data, class Loss, Optimizer O>
void keeps_bits(std::string_view name, Make make, const Data& data, const Loss& loss, const O& optimizer) {
  fit_options o{.epochs = epochs, .batch = batch, .schedule = optim::cosine{.warm_up = 20}};
  o.shards = 8;
  const auto first = make(1);
  auto one = first;
  const auto report = fit(one, data, loss, optimizer, o);
  BOOST_TEST_CONTEXT(name) {
    BOOST_TEST(std::ssize(report.epochs) == epochs);
    BOOST_TEST(!nets_test::same_bits(one.parameters(), first.parameters()));
    if (epochs > 2) BOOST_TEST(report.epochs.back().loss < report.epochs.front().loss);
    for (int threads = 2; threads <= 4; ++threads) {
      auto net = make(threads);
      o.read_threads = threads - 1;
      fit(net, data, loss, optimizer, o);
      BOOST_TEST(nets_test::same_bits(net.parameters(), one.parameters()), threads << " threads");
    }
    o.read_threads = 0;

    const test_files::folder dir;
    auto ended = make(2), resumed = make(1);
    fit_options part = o;
    part.checkpoint = dir / "checkpoint";
    part.observer = [n = std::int64_t(0)](const training_progress& p) mutable {
      return p.epoch_ended || ++n < batches * epochs / 3;
    };
    fit(ended, data, loss, optimizer, part);
    part.observer = {}, part.resume = true;
    fit(resumed, data, loss, optimizer, part);
    BOOST_TEST(nets_test::same_bits(resumed.parameters(), one.parameters()), "resumed");

    for (int count : {1, 2, 4, 8}) {
      const auto all = replicas_test::trained_by(optimizer, first, count, data, o, nullptr, nullptr, {}, loss);
      for (const auto& net : all)
        BOOST_TEST(nets_test::same_bits(net.parameters(), one.parameters()), count << " replicas");
    }
  }
}
template <const auto& Net, class... Ports> auto made() {
  return [](int threads) { return model<Net, Ports...>({.seed = 1, .threads = threads}); };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(two_hundred_steps)

BOOST_AUTO_TEST_CASE(of_messages) {
  keeps_bits("words", made<words, port_input<"input", std::int64_t, "N", "T">>(), messages{}, loss::cross_entropy{},
             optim::adam{.lr = 0.02});
}
BOOST_AUTO_TEST_CASE(of_a_transformer) {
  std::vector<std::int64_t> text(static_cast<std::size_t>(samples + 8));
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int64_t>(i * i % 24);
  keeps_bits("language", made<language, port_input<"input", std::int64_t, "N", "T">>(),
             datasets::token_windows(text, 8, 1) | dataset::take(samples), loss::cross_entropy{},
             optim::adamw{.lr = 4e-3});
}
BOOST_AUTO_TEST_CASE(of_a_table) {
  keeps_bits("table", made<table, input<"N", 5>>(), drawn<tensor<float, extents<1>>, 5>{}, loss::mse{},
             optim::adamw{.lr = 5e-3});
}
BOOST_AUTO_TEST_CASE(of_sounds) {
  const auto noisy = drawn<std::int64_t, 12, 8>{4} | dataset::map(
                                                         [](const auto& s, const augment::position& at) {
                                                           auto x = s.first;
                                                           x.detach();
                                                           const philox random(at.seed, at.epoch, at.index);
                                                           for (std::uint64_t k = 0; float& v : x.writable())
                                                             v += 0.02f * random.uniform(k++);
                                                           return std::pair(x, s.second);
                                                         },
                                                         1);
  keeps_bits("sounds", made<sounds, input<"N", 12, 8>>(), noisy, loss::cross_entropy{}, optim::adam{.lr = 2e-3});
}
BOOST_AUTO_TEST_CASE(of_segmentation) {
  keeps_bits("segmentation", made<segmentation, input<"N", 1, 8, 8>>(),
             drawn<tensor<std::int64_t, extents<8, 8>>, 1, 8, 8>{3}, loss::cross_entropy{}, optim::adam{.lr = 1e-2});
}
BOOST_AUTO_TEST_CASE(of_pictures) {
  keeps_bits("pictures", made<pictures, input<"N", 1, 12, 12>>(), drawn<std::int64_t, 1, 12, 12>{4},
             loss::cross_entropy{}, optim::sgd{.lr = 0.05, .momentum = 0.9});
}
BOOST_AUTO_TEST_CASE(of_adapters) {
  const auto adapted = [](int threads) {
    model<pictures, input<"N", 1, 12, 12>> net({.seed = 1, .threads = threads});
    add_lora(net, {"*.weight"}, {.rank = 4});
    return net;
  };
  keeps_bits("adapters", adapted, drawn<std::int64_t, 1, 12, 12>{4}, loss::cross_entropy{}, optim::adam{.lr = 5e-3});
}

BOOST_AUTO_TEST_SUITE_END()
