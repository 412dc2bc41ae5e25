// Convolution nets in channel blocks against the plain layout.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

import lamina;

#include "elementwise_functions.h"
#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// Sets whose registers hold eight floats or more.
bool has_wide_registers() { return target_isa() == isa::avx2 || target_isa() == isa::avx512; }

array real(const shape& s, int seed, double low = -1, double high = 1) {
  return random_array(dtype::float32, s, seed, low, high);
}

// A net over an image with its weights as states; results in blocked and in plain layout must agree.
using net = std::function<std::vector<value>(small_graph&, const value&)>;
std::shared_ptr<const plan> equal_layouts(const shape& image, const net& build, int threads = 1) {
  std::vector<array> results[2];
  std::shared_ptr<const plan> blocked;
  for (bool blocks : {false, true}) {
    small_graph g;
    value x = g.input(real(image, 1));
    for (const auto& v : build(g, x)) g.output(v);
    results[blocks] = g.run({.blocked_layout = blocks}, threads);
    if (blocks) blocked = g.plan;
    else
      for (const auto& l : g.plan->lines()) BOOST_TEST((l.form == layout::plain));
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    BOOST_CHECK_MESSAGE(distance(results[0][i], results[1][i]) < 2e-5,
                        image.string() << " result " << i << ": " << distance(results[0][i], results[1][i]));
  return blocked;
}
value weight(small_graph& g, const char* name, const shape& s) {
  return g.state(name, real(s, static_cast<int>(name[0]), -0.4, 0.4));
}
bool any_blocked(const plan& p) {
  for (const auto& l : p.lines())
    if (l.form == layout::blocked) return true;
  return false;
}
using values = std::vector<value>;

}  // namespace

BOOST_AUTO_TEST_SUITE(layouts)

BOOST_AUTO_TEST_CASE(one_convolution) {
  for (std::int64_t in : {1, 3, 5, 16, 20})
    for (std::int64_t out : {1, 6, 16, 19})
      for (std::int64_t batch : {1, 3}) {
        auto p = equal_layouts({batch, in, 9, 11}, [&](small_graph& g, const value& x) {
          return values{conv2d(x, weight(g, "w", {out, in, 3, 3}), {.padding = 1})};
        });
        if (in >= 16 && out >= 16) BOOST_TEST(any_blocked(*p));
      }
}

// Results in blocks are converted into the caller's memory, also if a view of them is given; only one that is given twice
// is copied.
BOOST_AUTO_TEST_CASE(results_are_converted_into_outputs) {
  const auto copies = [](const plan& p) {
    return std::count_if(p.stages().begin(), p.stages().end(), [](const auto& s) { return s.line < 0; });
  };
  for (const std::int64_t out : {16, 19, 32}) {
    const auto y_of = [&](small_graph& g, const value& x) {
      return relu(conv2d(x, weight(g, "w", {out, 16, 3, 3}), {.padding = 1}));
    };
    const auto flat = [&](const value& y) { return reshape(y, shape{2, out * 99}); };
    for (const int threads : {1, 2}) {
      const auto alone =
          equal_layouts({2, 16, 9, 11}, [&](small_graph& g, const value& x) { return values{y_of(g, x)}; }, threads);
      BOOST_TEST(copies(*alone) == 0);
      const auto viewed = equal_layouts(
          {2, 16, 9, 11}, [&](small_graph& g, const value& x) { return values{flat(y_of(g, x))}; }, threads);
      BOOST_TEST(copies(*viewed) == 0);
      const auto twice = equal_layouts(
          {2, 16, 9, 11},
          [&](small_graph& g, const value& x) {
            const value y = y_of(g, x), z = conv2d(y, weight(g, "v", {16, out, 1, 1}), {});
            return values{
                flat(y), y, reduce_mean(z), z, reduce_sum(flat(y)), slice(z, {.start = 2, .stop = 9, .axis = 2})};
          },
          threads);
      BOOST_TEST(any_blocked(*twice));
    }
  }
}

BOOST_AUTO_TEST_CASE(strides_dilation_groups) {
  equal_layouts({2, 8, 13, 12}, [](small_graph& g, const value& x) {
    return values{conv2d(x, weight(g, "w", {24, 8, 3, 3}), {.stride = 2, .padding = 1})};
  });
  equal_layouts({2, 8, 13, 12}, [](small_graph& g, const value& x) {
    return values{conv2d(x, weight(g, "w", {9, 8, 3, 2}), {.dilation = {2, 3}})};
  });
  equal_layouts({2, 32, 8, 8}, [](small_graph& g, const value& x) {
    return values{conv2d(x, weight(g, "w", {32, 16, 3, 3}), {.padding = 1, .groups = 2})};
  });
  equal_layouts({1, 32, 8, 8}, [](small_graph& g, const value& x) {
    return values{conv2d(x, weight(g, "w", {32, 1, 3, 3}), {.padding = 1, .groups = 32})};
  });
  // Groups of whole blocks of channels, some by Winograd, with everything that a call can add to them.
  for (const std::int64_t groups : {2, 3, 6})
    for (const std::int64_t batch : {1, 2, 5})
      for (const std::int64_t extent : {7, 17}) {
        const std::int64_t in = 32 * groups, out = groups == 3 ? 48 * groups : in;
        const auto p = equal_layouts(
            {batch, in, extent, extent + 1},
            [&](small_graph& g, const value& x) {
              const value v = weight(g, "v", {in, in, 1, 1}), h = relu(conv2d(x, v));
              const value y = conv2d(h, weight(g, "w", {out, 32, 3, 3}), {.padding = 1, .groups = groups});
              const value z = relu(y + weight(g, "b", {out, 1, 1}) + (out == in ? h : y));
              return values{z, conv2d(z, weight(g, "s", {groups * 16, out / groups, 3, 3}),
                                      {.stride = 2, .padding = 1, .groups = groups})};
            },
            static_cast<int>(batch));
        BOOST_TEST(p->explain().find("im2col") == std::string::npos);
        BOOST_TEST(p->explain().find("tiles") == std::string::npos);
      }
  // Split into blocks of channels; the last block has one channel.
  for (const std::int64_t channels : {9, 17, 33})
    equal_layouts({1, channels, 60, 64}, [&](small_graph& g, const value& x) {
      return values{
          conv2d(x, weight(g, "w", {channels, 1, 3, 5}), {.padding = {2, 1}, .dilation = {1, 2}, .groups = channels}),
          conv2d(x, weight(g, "v", {channels, 1, 3, 3}), {.stride = 2, .padding = 1, .groups = channels})};
    });
  equal_layouts({2, 6, 8, 8}, [](small_graph& g, const value& x) {
    return values{conv2d(x, weight(g, "w", {6, 2, 3, 3}), {.padding = 1, .groups = 3})};
  });
  equal_layouts({0, 16, 8, 8},
                [](small_graph& g, const value& x) { return values{conv2d(x, weight(g, "w", {16, 16, 3, 3}))}; });
}

BOOST_AUTO_TEST_CASE(a_net_like_lenet) {
  for (std::int64_t batch : {1, 2, 5}) {
    auto p = equal_layouts(
        {batch, 1, 28, 28},
        [](small_graph& g, const value& x) {
          value h =
              max_pool2d(tanh(conv2d(x, weight(g, "a", {6, 1, 5, 5}), {.padding = 2}) + weight(g, "b", {6, 1, 1})));
          h = max_pool2d(relu(conv2d(h, weight(g, "c", {16, 6, 5, 5})) + weight(g, "d", {16, 1, 1})));
          return values{matmul<false, true>(flatten(h), weight(g, "e", {10, 400})) + weight(g, "f", {10})};
        },
        static_cast<int>(batch % 3 + 1));
    BOOST_TEST(any_blocked(*p));
    BOOST_TEST(p->cost().reorders >= 1u);
    BOOST_TEST(p->explain().find("reorder to plain") != std::string::npos);
    BOOST_TEST(p->packs().size() >= 2u);
  }
}

BOOST_AUTO_TEST_CASE(residual_blocks) {
  for (std::int64_t c : {16, 20, 7})
    equal_layouts({2, c, 8, 7}, [&](small_graph& g, const value& x) {
      value h = relu(conv2d(x, weight(g, "a", {c, c, 3, 3}), {.padding = 1}) + weight(g, "b", {c, 1, 1}));
      value y = relu(conv2d(h, weight(g, "c", {c, c, 3, 3}), {.padding = 1}) + weight(g, "d", {c, 1, 1}) + h);
      value z = relu(conv2d(y, weight(g, "e", {c, c, 3, 3}), {.padding = 1}) + weight(g, "f", {c, 1, 1}) +
                     x);  // a plain residual
      return values{z, global_avg_pool2d(z)};
    });
}

BOOST_AUTO_TEST_CASE(two_convolutions_that_meet) {
  for (std::int64_t c : {16, 18})
    equal_layouts({2, 3, 8, 8}, [&](small_graph& g, const value& x) {
      return values{relu(conv2d(x, weight(g, "a", {c, 3, 3, 3}), {.padding = 1}) +
                         conv2d(x, weight(g, "b", {c, 3, 1, 1})) + weight(g, "c", {c, 1, 1}))};
    });
}

// Channel shuffle as ShuffleNet's exporters write it: interleaves the channels of a concatenation.
value shuffled(const value& x, std::int64_t groups) {
  const shape s = x.shape();
  return reshape(permute(reshape(x, {s[0], dim(groups), dim(s.at(1) / groups), s[2], s[3]}), {0, 2, 1, 3, 4}), s);
}
BOOST_AUTO_TEST_CASE(shuffled_channels_stay_in_blocks) {
  for (std::int64_t c : {16, 20, 29, 40})
    for (std::int64_t batch : {1, 2}) {
      const auto p = equal_layouts({batch, 16, 6, 5}, [&](small_graph& g, const value& x) {
        const value first = relu(conv2d(x, weight(g, "a", {c, 16, 1, 1}))),
                    second = sigmoid(conv2d(x, weight(g, "b", {c, 16, 1, 1})));
        const value all[] = {first, second};
        const auto halves = split(shuffled(concat(view<const value>(all), 1), 2), 2, 1);
        const value more[] = {halves[0], conv2d(halves[1], weight(g, "c", {c, c, 3, 3}), {.padding = 1})};
        return values{conv2d(shuffled(concat(view<const value>(more), 1), 2), weight(g, "d", {16, 2 * c, 1, 1}))};
      });
      BOOST_TEST(p->counters().of(rewrite::channel_shuffle) >= 3);
      BOOST_TEST(p->cost().reorders == 2u);  // the input and the output
      BOOST_TEST(p->explain().find("concat") == std::string::npos);
    }
}
BOOST_AUTO_TEST_CASE(alternating_channels) {
  const auto p = equal_layouts({2, 16, 6, 5}, [&](small_graph& g, const value& x) {
    const value y = relu(conv2d(x, weight(g, "a", {36, 16, 1, 1})));
    const value pairs = reshape(permute(reshape(y, {36, 2, 30}), {1, 0, 2}), {2, 2, 18, 6, 5});
    return values{conv2d(select(pairs, 0, 0), weight(g, "b", {16, 18, 1, 1})),
                  conv2d(select(pairs, 0, 1), weight(g, "c", {16, 18, 1, 1}))};
  });
  BOOST_TEST(p->counters().of(rewrite::channel_shuffle) == 2);
  BOOST_TEST(p->cost().reorders == 3u);
}
// A reshape and permutation that is not a channel shuffle is left alone.
BOOST_AUTO_TEST_CASE(other_permutations_are_no_shuffles) {
  const auto p = equal_layouts({1, 16, 4, 4}, [&](small_graph& g, const value& x) {
    const value y = relu(conv2d(x, weight(g, "a", {16, 16, 1, 1})));
    return values{reshape(permute(reshape(y, {1, 4, 4, 4, 4}), {0, 1, 3, 2, 4}), {1, 16, 4, 4}),
                  reshape(permute(reshape(y, {1, 2, 8, 4, 4}), {0, 2, 1, 3, 4}), {1, 4, 16, 4})};
  });
  BOOST_TEST(p->counters().of(rewrite::channel_shuffle) == 0);
}
// Channel slices and concatenations, also with cuts inside a block, and with one that is a view of whole blocks.
BOOST_AUTO_TEST_CASE(parts_of_channels_stay_in_blocks) {
  for (std::int64_t c : {32, 48, 23})
    for (std::int64_t batch : {1, 3}) {
      const auto p = equal_layouts({batch, 16, 5, 4}, [&](small_graph& g, const value& x) {
        const value y = exp(conv2d(x, weight(g, "a", {c, 16, 1, 1})));
        const value first = slice(y, {.stop = 16, .axis = 1}), rest = slice(y, {.start = 16, .axis = 1}),
                    some = slice(y, {.start = 3, .stop = 20, .axis = -3, .step = 2});
        const value all[] = {rest, some, y, conv2d(first, weight(g, "b", {19, 16, 1, 1}))};
        const value joined = concat(view<const value>(all), 1);
        return values{conv2d(tanh(joined), weight(g, "d", {16, c - 16 + 9 + c + 19, 1, 1}))};
      });
      BOOST_TEST(p->cost().reorders == 2u);
    }
}
// Slices that are views of whole blocks, while another reader takes the whole in plain layout.
BOOST_AUTO_TEST_CASE(parts_of_channels_beside_a_plain_reader) {
  for (std::int64_t first : {0, 16, 32})
    equal_layouts({1, 16, 5, 4}, [&](small_graph& g, const value& x) {
      const value y = conv2d(x, weight(g, "a", {48, 16, 1, 1})),
                  part = slice(y, {.start = first, .stop = first + 16, .axis = 1});
      return values{permute(y, {0, 1, 3, 2}), part, value(softmax(part)), conv2d(part, weight(g, "b", {16, 16, 1, 1}))};
    });
}
// With mostly plain operands, a concatenation stays plain.
BOOST_AUTO_TEST_CASE(concatenations_of_plain_images_stay_plain) {
  const auto p = equal_layouts({1, 48, 5, 4}, [&](small_graph& g, const value& x) {
    const value all[] = {x, conv2d(x, weight(g, "a", {16, 48, 1, 1}))};
    return values{concat(view<const value>(all), 1)};
  });
  for (const auto& l : p->lines())
    if (l.what.find("concat") != std::string::npos) BOOST_TEST((l.form == layout::plain));
}

BOOST_AUTO_TEST_CASE(elementwise_between) {
  struct between {
    const char* name;
    value (*run)(const value&);
  };
  const between all[] = {{"tanh", [](const value& v) -> value { return tanh(v); }},
                         {"sigmoid", [](const value& v) -> value { return sigmoid(v); }},
                         {"exp", [](const value& v) -> value { return exp(v); }},
                         {"x * 3", [](const value& v) -> value { return v * 3; }},
                         {"x + 3", [](const value& v) -> value { return v + 3; }},
                         {"1 / (x x + 1)", [](const value& v) -> value { return 1 / (v * v + 1); }},
                         {"x x", [](const value& v) -> value { return v * v; }},
                         {"max", [](const value& v) -> value { return max(v, 0.25); }},
                         {"cos", [](const value& v) -> value { return cos(v); }},
                         {"clamp", [](const value& v) -> value { return clamp(v, 0.1, 0.2); }},
                         {"clamp below", [](const value& v) -> value { return clamp(v, -2, -1); }},
                         {"where", [](const value& v) -> value { return where(v > 0, v, v * 0.1); }},
                         {"broadcast", [](const value& v) -> value { return v * reduce_mean<axes(2, 3), true>(v); }},
                         {"log", [](const value& v) -> value { return log(max(v * v, 0.01)); }}};
  for (const auto& f : all)
    for (std::int64_t c : {16, 21}) BOOST_TEST_CONTEXT(f.name)
  equal_layouts({2, 3, 7, 6}, [&](small_graph& g, const value& x) {
    value h = f.run(conv2d(x, weight(g, "a", {c, 3, 3, 3}), {.padding = 1}));
    return values{conv2d(h, weight(g, "b", {c, c, 3, 3})), h};
  });
}

// A function needs no zeroed padding channels if its results there are finite.
BOOST_AUTO_TEST_CASE(chains_stay_blocked) {
  struct activation {
    const char* name;
    value (*run)(const value&);
    bool blocked;
  };
  const activation all[] = {{"hard_swish", [](const value& v) -> value { return v * clamp(v + 3, 0, 6) / 6; }, true},
                            {"gelu_tanh", [](const value& v) -> value { return gelu_tanh(v); }, true},
                            {"sigmoid", [](const value& v) -> value { return sigmoid(v); }, true},
                            {"clamp away from 0", [](const value& v) -> value { return clamp(v, 0.1, 0.2); }, true},
                            {"a residual of ones", [](const value& v) -> value { return v + exp(-v); }, true},
                            {"1 / x, infinite at 0", [](const value& v) -> value { return 1 / v; }, false},
                            {"log, infinite at 0", [](const value& v) -> value { return log(v); }, false}};
  const auto reorders = [](value (*f)(const value&), std::int64_t channels) {
    return equal_layouts({2, 3, 9, 9},
                         [&](small_graph& g, const value& x) {
                           const value h = conv2d(x, weight(g, "a", {channels, 3, 3, 3}), {.padding = 1}) +
                                           weight(g, "b", {channels, 1, 1});
                           const value again =
                               conv2d(f(f(abs(h) + 0.5)), weight(g, "c", {channels, channels, 3, 3}), {.padding = 1});
                           return values{max_pool2d(again + f(abs(h) + 0.5))};
                         })
        ->cost()
        .reorders;
  };
  for (const auto& f : all)
    for (std::int64_t channels : {32, 21, 24}) BOOST_TEST_CONTEXT(f.name << ", " << channels << " channels") {
        const auto least = reorders([](const value& v) -> value { return relu(v); }, channels);
        if (f.blocked || channels == 32) BOOST_TEST(reorders(f.run, channels) == least);
        else reorders(f.run, channels);
      }
}

// Squeeze and excite: the means of maps and the resulting factors need no map in plain layout.
BOOST_AUTO_TEST_CASE(channels_are_scaled_in_blocks) {
  const auto planned = [](std::int64_t channels, const shape& image, bool one_gate, int threads) {
    return equal_layouts(
        image,
        [&](small_graph& g, const value& x) {
          const value h = hard_swish(conv2d(x, weight(g, "a", {channels, 3, 3, 3}), {.padding = 1}));
          const value mean = reduce_mean(h, {.axes = axes(2, 3), .keepdim = true});
          const value few = relu(conv2d(mean, weight(g, "b", {8, channels, 1, 1})) + weight(g, "c", {8, 1, 1}));
          value gate =
              hard_sigmoid(conv2d(few, weight(g, "d", {channels, 8, 1, 1})) + weight(g, "e", {channels, 1, 1}));
          if (one_gate) gate = slice(gate, {.stop = 1, .axis = 0});
          const value y = relu(h * gate + gate);
          const value top = reduce_max(y, {.axes = axes(-1, -2), .keepdim = true}),
                      sums = reduce_sum(y, {.axes = axes(2, 3), .keepdim = true}) * 0.01;
          return values{conv2d(y, weight(g, "f", {channels, channels, 3, 3}), {.padding = 1}), top, sums};
        },
        threads);
  };
  for (const std::int64_t channels : {16, 21, 24, 40, 48})
    for (const shape& image : {shape{2, 3, 9, 9}, shape{1, 3, 1, 1}, shape{2, 3, 1, 3}, shape{1, 3, 33, 40}})
      for (const bool one_gate : {false, true}) {
        const auto plan = planned(channels, image, one_gate, 1);
        std::int64_t maps = 0;
        for (const auto& l : plan->lines())
          maps += l.what == "reorder to plain" && l.result.dims.at(2) * l.result.dims.at(3) > 1;
        BOOST_TEST(maps <= 1);  // the output
      }
  planned(40, {2, 3, 60, 60}, false, 2);
}

// Taps that are far apart, in parts, in bands before a pool, and with a map that most of them are beyond.
BOOST_AUTO_TEST_CASE(dilated_convolutions_stay_in_blocks) {
  const auto planned = [](const extent2d& dilation, std::int64_t channels, const shape& image, int threads) {
    return equal_layouts(
        image,
        [&](small_graph& g, const value& x) {
          const value h = 0.2 * conv2d(x, weight(g, "a", {channels, image.at(1), 3, 3}), {.padding = 1});
          const conv2d_attributes apart{.padding = dilation, .dilation = dilation};
          const value y = relu(conv2d(h, weight(g, "c", {channels, channels, 3, 3}), apart));
          return values{max_pool2d(y), conv2d(h, weight(g, "d", {2 * channels, channels, 5, 2}), apart)};
        },
        threads);
  };
  for (const extent2d& dilation : {extent2d{2, 2}, extent2d{1, 3}, extent2d{5, 1}, extent2d{12, 24}})
    for (const std::int64_t channels : {16, 21, 40})
      for (const int threads : {1, 2}) BOOST_TEST(any_blocked(*planned(dilation, channels, {2, 3, 30, 26}, threads)));
  for (const int threads : {1, 2})
    for (const extent2d& dilation : {extent2d{1, 2}, extent2d{3, 9}, extent2d{2, 1}})
      BOOST_TEST(any_blocked(*planned(dilation, 64, {1, 16, 64, 60}, threads)));
}

// Factors and terms of batch norms, with or without an axis for the batch.
BOOST_AUTO_TEST_CASE(numbers_per_channel_need_no_plain_map) {
  const auto maps = [](const shape& factors, const shape& terms, std::int64_t batch, std::int64_t channels) {
    const auto plan = equal_layouts({batch, 3, 9, 7}, [&](small_graph& g, const value& x) {
      const value h = conv2d(x, weight(g, "a", {channels, 3, 3, 3}), {.padding = 1});
      const value y = relu(h * weight(g, "s", factors) - exp(weight(g, "t", terms)));
      const value z = conv2d(y, weight(g, "c", {channels, channels, 1, 1}));
      return values{reduce_mean(z, {.axes = axes(2, 3), .keepdim = true}),
                    reduce_max(y, {.axes = axes(2, 3), .keepdim = true})};
    });
    std::int64_t count = 0;
    for (const auto& l : plan->lines())
      count += l.what == "reorder to plain" && l.result.dims.at(2) * l.result.dims.at(3) > 1;
    return count;
  };
  for (const std::int64_t channels : {16, 21, 24, 32, 48})
    for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{3}, channels})
      BOOST_TEST_CONTEXT(channels << " channels, batch " << batch) {
        for (const shape& few : {shape{channels, 1, 1}, shape{1, channels, 1, 1}, shape{batch, channels, 1, 1}}) {
          BOOST_TEST(maps(few, {channels, 1, 1}, batch, channels) == 0);
          BOOST_TEST(maps({channels, 1, 1}, few, batch, channels) == 0);
        }
        BOOST_TEST(maps({channels, 1, 7}, {channels, 1, 1}, batch, channels) == 1);  // differs along a row
        BOOST_TEST(maps({9, 1}, {channels, 1, 1}, batch, channels) == 1);
      }
}

// Where one pixel has full blocks, both layouts have the same bytes.
BOOST_AUTO_TEST_CASE(full_blocks_of_one_pixel_are_not_reordered) {
  for (const std::int64_t batch : {1, 2})
    for (const std::int64_t channels : {32, 24}) {
      const auto plan = equal_layouts({batch, channels, 6, 5}, [&](small_graph& g, const value& x) {
        const value h = conv2d(x, weight(g, "a", {channels, channels, 3, 3}), {.padding = 1});
        const value mean = reduce_mean(h, {.axes = axes(2, 3), .keepdim = true});
        return values{matmul(reshape(mean, {batch, channels}), weight(g, "b", {channels, 3}))};
      });
      const auto& lines = plan->lines();
      const bool reorders = std::any_of(lines.begin(), lines.end(), [](const auto& l) {
        return l.what.starts_with("reorder") && l.result.dims.at(2) == 1;
      });
      BOOST_TEST(reorders == (channels == 24 && target_isa() == isa::avx512), plan->explain());
    }
}

// Each function on blocks between two convolutions, fused into the first one's tail like `relu`.
BOOST_AUTO_TEST_CASE(every_function_after_a_convolution) {
  struct function {
    const char* name;
    double low, high;
    value (*run)(const value&);
  };
  const function all[] = {
#define FUNCTION(name, low, high, ...) {#name, low, high, [](const value& x) -> value { return name(x); }},
      EACH_ELEMENTWISE_FUNCTION(FUNCTION)
#undef FUNCTION
  };
  const auto planned = [](const function& f, value (*run)(const value&)) {
    return equal_layouts({2, 3, 9, 9}, [&](small_graph& g, const value& x) {
      const value h = sigmoid(conv2d(x, weight(g, "a", {21, 3, 3, 3}), {.padding = 1}));
      const value y = tanh(run(h * (f.high - f.low) + f.low));
      return values{max_pool2d(conv2d(y, weight(g, "c", {21, 21, 3, 3})))};
    });
  };
  for (const auto& f : all) BOOST_TEST_CONTEXT(f.name) {
      const auto plan = planned(f, f.run), with_relu = planned(f, [](const value& x) -> value { return relu(x); });
      BOOST_TEST(plan->cost().reorders == with_relu->cost().reorders);
      BOOST_TEST(plan->lines().size() == with_relu->lines().size());
    }
}

// 1-D convolutions run as images of one row: later operations fuse there, and convolutions pass blocks to each other.
BOOST_AUTO_TEST_CASE(sequences_stay_images) {
  const auto planned = [](std::int64_t channels, bool columns) {
    return equal_layouts({2, 3, 19}, [&](small_graph& g, const value& x) {
      const auto along = [&](const value& v, const char* name, std::int64_t from) -> value {
        const value w = weight(g, name, {channels, from, 3});
        if (!columns) return conv1d(v, w, {.padding = 1});
        const auto image = [](const value& u) -> value { return unsqueeze(u, axes(3)); };
        return squeeze(conv2d(image(v), image(w), {.padding = {1, 0}}), axes(3));
      };
      const value a = relu(along(x, "a", 3) + weight(g, "b", {channels, 1}));
      const value b = along(a, "c", channels) * weight(g, "d", {1, channels, 1}) + weight(g, "e", {channels, 1});
      const value c = silu(b + a);
      return values{along(c, "f", channels), c * weight(g, "s", {19})};
    });
  };
  for (const bool columns : {false, true})
    for (const std::int64_t channels : {16, 21}) {
      const auto plan = planned(channels, columns);
      BOOST_TEST(plan->cost().reorders <= 5u,
                 plan->explain());  // channel counts, outputs, and the input where lanes are few
      const auto& lines = plan->lines();
      BOOST_TEST(
          std::any_of(lines.begin(), lines.end(), [](const auto& l) { return l.what == "conv2d + add + relu"; }));
    }
}

// Parts of rows and columns stay in channel blocks, also of channels that do not fill them.
BOOST_AUTO_TEST_CASE(parts_of_maps_stay_blocked) {
  for (const std::int64_t channels : {16, 21})
    for (const std::int64_t axis : {2, 3})
      for (const std::int64_t step : {1, 2}) {
        const auto plan = equal_layouts({2, 3, 11, 12}, [&](small_graph& g, const value& x) {
          const value h = relu(conv2d(x, weight(g, "a", {channels, 3, 3, 3}))), w = weight(g, "c", {8, channels, 1, 1});
          const value part = slice(h, {.start = 2, .stop = -1, .axis = axis, .step = step});
          const value uneven = slice(exp(h), {.stop = 4, .axis = axis, .step = step});  // not 0 beyond the channels
          return values{conv2d(part, w), conv2d(uneven, w), reduce_sum(h, {})};
        });
        for (const auto& l : plan->lines())
          if (l.what == "slice") BOOST_TEST((l.form == layout::blocked), plan->explain());
      }
}

// So do repeated, mirrored and padded ones: only a border that is not zero would be seen beyond the channels.
BOOST_AUTO_TEST_CASE(borders_of_maps_stay_blocked) {
  for (const std::int64_t channels : {16, 21})
    for (const std::int64_t axis : {2, 3}) {
      const auto plan = equal_layouts({2, 3, 11, 12}, [&](small_graph& g, const value& x) {
        const value h = relu(conv2d(x, weight(g, "a", {channels, 3, 3, 3}))), w = weight(g, "c", {8, channels, 3, 3});
        any_tensor mirrored(tensor_type{dtype::int64, {6}});
        std::copy_n(std::array<std::int64_t, 6>{2, 1, 0, 1, 2, -1}.begin(), 6,
                    reinterpret_cast<std::int64_t*>(mirrored.mutable_data()));
        const value index = x.owner().constant(std::move(mirrored));
        return values{
            conv2d(repeat(h, {2, axis}), w), conv2d(repeat(exp(h), {3, axis}), w),  // not 0 beyond the channels
            conv2d(gather(h, index, axis), w), conv2d(tanh(pad(h, {.axis = axis, .before = 1, .after = 2})), w),
            conv2d(tanh(pad(h, {.axis = axis, .before = 2, .after = 1, .value = 0.5})), w)};
      });
      std::size_t plain = 0;
      for (const auto& l : plan->lines())
        plain += (l.what == "repeat" || l.what == "gather" || l.what == "pad") && l.form != layout::blocked;
      BOOST_TEST(plain == 1u, plan->explain());
    }
}

// Random nets over sequences and images.
BOOST_AUTO_TEST_CASE(random_nets_stay_equal) {
  const auto grown = [](int seed, small_graph& g, const value& x) {
    draws draw{philox(seed, 7)};
    const int rank = x.shape().rank;
    int made = 0;
    values all{x}, results;
    const auto filter = [&](const shape& s) {
      const double limit = std::sqrt(2. / static_cast<double>(s.size(1, s.rank)));
      message_text name;
      name << "w" << made++;
      return g.state(name.string(), random_array(dtype::float32, s, seed * 50 + made, -limit, limit));
    };
    for (int i = 0; i < 9; ++i) {
      const value v = all[all.size() - 1 - draw.below(std::min<std::size_t>(all.size(), 3))];
      const shape& s = v.shape();
      const auto axis = static_cast<std::int64_t>(2 + draw.below(static_cast<std::size_t>(rank - 2)));
      const std::int64_t channels = s.at(1), length = s.at(static_cast<int>(axis));
      if (length < 5) break;
      switch (draw.below(10)) {
        case 0: all.push_back(tanh(v)); break;
        case 1:
          all.push_back(leaky_relu(v, {.slope = 0.2}) * filter(rank == 3 ? shape{channels, 1} : shape{channels, 1, 1}));
          break;
        case 2: {
          const std::int64_t half = channels / 2;
          all.push_back(tanh(slice(v, {.stop = half, .axis = 1})) *
                        sigmoid(slice(v, {.start = half, .stop = 2 * half, .axis = 1})));
          break;
        }
        case 3:
          all.push_back(slice(v, {.start = 1, .stop = -2, .axis = axis}) + slice(v, {.start = 3, .axis = axis}));
          break;
        case 4: {
          const value both[] = {v, tanh(v)};
          all.push_back(concat(view<const value>(both), channels < 50 ? 1 : axis));
          break;
        }
        case 5: all.push_back(s.size() < 30000 ? value(repeat(v, {2, axis})) : value(abs(v))); break;
        case 6: all.push_back(pad(v, {.axis = axis, .before = 1, .after = 2})); break;
        case 7: results.push_back(reduce_max(v, {rank == 3 ? axes(2) : axes(2, 3), draw.below(2) == 0})); break;
        default: {
          const std::int64_t to = std::int64_t(8) << draw.below(3), taps = draw.below(2) ? 3 : 1,
                             apart = 1 + static_cast<std::int64_t>(draw.below(2));
          const std::int64_t out = draw.below(3) ? to : to + 3;
          all.push_back(
              rank == 3 ? value(conv1d(v, filter({out, channels, taps}),
                                       {.padding = draw.below(2) ? taps - 1 : 0, .dilation = length > 6 ? apart : 1}))
                        : value(conv2d(v, filter({out, channels, taps, taps}), {.padding = taps / 2})));
        }
      }
    }
    results.push_back(all.back());
    results.push_back(all[all.size() / 2] * 0.5);
    return results;
  };
  int blocked = 0;
  for (int seed = 0; seed < random_cases(60); ++seed) {
    const std::int64_t channels = seed % 3 ? 16 : 11, images = 1 + seed % 4 / 3;
    const shape of = seed % 2 ? shape{images, channels, 9, 12} : shape{images, channels, seed % 4 ? 40 : 130};
    BOOST_TEST_CONTEXT("seed " << seed) {
      const auto plan =
          equal_layouts(of, [&](small_graph& g, const value& x) { return grown(seed, g, x); }, 1 + seed % 5 / 4);
      blocked += any_blocked(*plan);
    }
  }
  BOOST_TEST(2 * blocked > random_cases(60));
}

// Gates and skip connections of one-dimensional nets: halves of the channels, the end of a sequence, joined channels.
BOOST_AUTO_TEST_CASE(parts_of_sequences_stay_images) {
  const auto planned = [](std::int64_t channels, bool columns) {
    return equal_layouts({2, 3, 40}, [&](small_graph& g, const value& x) {
      const auto along = [&](const value& v, const char* name, std::int64_t from, std::int64_t to) -> value {
        const value w = weight(g, name, {to, from, 3});
        if (!columns) return conv1d(v, w);
        const auto image = [](const value& u) -> value { return unsqueeze(u, axes(3)); };
        return squeeze(conv2d(image(v), image(w)), axes(3));
      };
      const value a = relu(along(x, "a", 3, channels)), b = along(a, "b", channels, 2 * channels);
      const value gated =
          tanh(slice(b, {.stop = channels, .axis = 1})) * sigmoid(slice(b, {.start = channels, .axis = 1}));
      const value skip = slice(a, {.start = 2, .axis = 2}) + gated, joined[] = {skip, gated};
      const value c = along(concat(view<const value>(joined), 1), "c", 2 * channels, channels);
      return values{slice(c, {.start = -8, .axis = 2}) + slice(skip, {.start = -8, .axis = 2}),
                    slice(c, {.stop = 1, .axis = 0})};
    });
  };
  for (const bool columns : {false, true})
    for (const std::int64_t channels : {16, 21}) {
      const auto plan = planned(channels, columns);
      const bool aligned = channels == 16;  // else halves of channels are moved lane by lane
      for (const auto& l : plan->lines())
        if (aligned && l.what.find("sigmoid") != std::string::npos)
          BOOST_TEST((l.form == layout::blocked), plan->explain());
    }
}

// Reductions of whole maps read channel blocks, with or without the axes that they reduce.
BOOST_AUTO_TEST_CASE(reduced_maps_stay_images) {
  const auto planned = [](std::int64_t channels, int rank, bool keepdim) {
    const shape w = rank == 3 ? shape{channels, 3, 3} : shape{channels, 3, 3, 3};
    return equal_layouts(rank == 3 ? shape{2, 3, 37} : shape{2, 3, 9, 11}, [&](small_graph& g, const value& x) {
      const value f = weight(g, "a", w);
      const value h = relu(rank == 3 ? value(conv1d(x, f)) : value(conv2d(x, f)));
      const reduce_attributes maps{rank == 3 ? axes(2) : axes(-1, 2), keepdim};
      return values{reduce_max(h, maps), reduce_mean(h, maps), reduce_min(h, maps), reduce_sum(h, maps)};
    });
  };
  for (const int rank : {3, 4})
    for (const bool keepdim : {false, true})
      for (const std::int64_t channels : {16, 21}) {
        const auto plan = planned(channels, rank, keepdim);
        for (const auto& l : plan->lines())
          if (l.what.starts_with("reduce")) BOOST_TEST((l.form == layout::blocked), plan->explain());
      }
}

// Causal convolutions, written as a padding of both sides and a slice, compute only what is left; not where others read
// the whole map, or where the slice begins inside it.
BOOST_AUTO_TEST_CASE(slices_become_padding) {
  const auto slices = [](std::int64_t channels, std::int64_t stride, std::int64_t first, std::int64_t last,
                         bool whole) {
    const auto plan = equal_layouts({2, channels, 37}, [&](small_graph& g, const value& x) {
      const value h =
          conv1d(x, weight(g, "a", {channels, channels, 3}), {.stride = stride, .padding = 4, .dilation = 2}) +
          weight(g, "b", {channels, 1});
      const value part = slice(h, {.start = first, .stop = last, .axis = 2});
      const value y = relu(part) * weight(g, "s", {1, channels, 1});
      values made{conv1d(y, weight(g, "c", {channels, channels, 2})), y};
      if (whole) made.push_back(h);
      return made;
    });
    std::int64_t count = 0;
    for (const auto& l : plan->lines()) count += l.what == "slice";
    return count;
  };
  for (const std::int64_t channels : {16, 21})
    for (const std::int64_t stride : {1, 2}) {
      BOOST_TEST(slices(channels, stride, 0, stride == 1 ? -4 : -2, false) == 0);
      BOOST_TEST(slices(channels, stride, 2, -1, false) == 0);
      BOOST_TEST(slices(channels, stride, 0, -9, false) == 1);  // fewer than without padding
      BOOST_TEST(slices(channels, stride, 7, -1, false) == 1);
      BOOST_TEST(slices(channels, stride, 0, -4, true) == 1);
    }
}

// Padding of sequences, as exporters write causal convolutions, is that of their images, so that they stay in channel
// blocks; not that of other numbers.
BOOST_AUTO_TEST_CASE(padding_of_sequences_joins_convolutions) {
  const auto pads = [](std::int64_t channels, std::int64_t dilation, bool columns, double border) {
    const auto plan = equal_layouts({2, channels, 37}, [&](small_graph& g, const value& x) {
      const auto causal = [&](const value& v, const char* name) -> value {
        const value w = weight(g, name, {channels, channels, 3});
        const value padded = pad(v, {.axis = -1, .before = 2 * dilation, .value = border});
        if (!columns) return conv1d(padded, w, {.dilation = dilation});
        return squeeze(conv2d(unsqueeze(padded, axes(3)), unsqueeze(w, axes(3)), {.dilation = {dilation, 1}}), axes(3));
      };
      const value a = relu(causal(x, "a") + weight(g, "b", {channels, 1}));
      const value b = relu(causal(pad(a, {.axis = 2, .before = 1, .after = 1}), "c"));
      return values{slice(b, {.start = 2, .axis = 2}) + a, reduce_sum(pad(a, {.axis = 1, .before = 1}), {})};
    });
    std::int64_t count = 0;
    for (const auto& l : plan->lines()) count += l.what == "pad";
    return count;
  };
  for (const std::int64_t channels : {16, 21})
    for (const std::int64_t dilation : {1, 3})
      for (const bool columns : {false, true}) {
        BOOST_TEST(pads(channels, dilation, columns, 0) == 1);  // that of channels
        BOOST_TEST(pads(channels, dilation, columns, 0.5) == 4);
      }
}

// Volumes run as images of their frames: everything between convolutions keeps channel blocks and needs no permutation.
BOOST_AUTO_TEST_CASE(volumes_stay_images) {
  const auto planned = [](std::int64_t channels, const shape& volume) {
    return equal_layouts(volume, [&](small_graph& g, const value& x) {
      const conv_options around{.paddings_before = {1, 1, 1}, .paddings_after = {1, 1, 1}};
      const value a = conv(x, weight(g, "a", {channels, volume.at(1), 3, 3, 3}), around);
      const value b = relu(a * weight(g, "s", {1, channels, 1, 1, 1}) + weight(g, "b", {channels, 1, 1, 1}));
      const value c = silu(conv(b, weight(g, "c", {channels, channels, 1, 3, 3}),
                                {.paddings_before = {0, 1, 1}, .paddings_after = {0, 1, 1}})) +
                      b;
      const value d = conv(concat({b, c}, 1), weight(g, "d", {channels, 2 * channels, 1, 1, 1}));
      const value e = max_pool(d, {.kernel = {2, 2, 2}, .strides = {2, 2, 2}});
      return values{conv(e, weight(g, "e", {channels, channels, 1, 2, 2})), d * weight(g, "r", {volume.at(4)}),
                    c + weight(g, "t", {volume.at(2), 1, 1})};
    });
  };
  for (const std::int64_t channels : {16, 21})
    for (const std::int64_t batch : {1, 2}) {
      const auto plan = planned(channels, {batch, 3, 4, 9, 8});
      std::int64_t permuted = 0;
      for (const auto& l : plan->lines()) permuted += l.what == "permute";
      BOOST_TEST(permuted == 5, plan->explain());  // filters, the input, and the outputs
    }
}

// Checks that results of a convolution (first of `build`) have the same bits whether only windows over them read them
// or others too. `is_joined`: whether a plan's line computes both. `odd`: a number for a filter, if it is not 0.
void check_bands(std::int64_t in, std::int64_t out, bool (*is_joined)(const std::string&),
                 const std::function<std::pair<value, value>(small_graph&, const value& x, double odd)>& build) {
  for (const double odd : {0.0, std::numeric_limits<double>::infinity()})
    for (const int threads : {1, 2}) BOOST_TEST_CONTEXT(in << " to " << out << " channels") {
        const auto run = [&](bool joins) {
          small_graph g;
          const auto [h, y] = build(g, g.input(real({2, in, 131, 121}, 1)), odd);
          g.output(y);
          if (!joins) g.output(h);
          const auto found = g.run({}, threads);
          const auto& lines = g.plan->lines();
          BOOST_TEST(joins ==
                     std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return is_joined(l.what); }));
          return found[0];
        };
        const array alone = run(false), joined = run(true);
        BOOST_TEST(same_bits(alone, joined));
      }
}

// A pool consumes the results of a convolution band by band, with the same bits as unfused.
BOOST_AUTO_TEST_CASE(pools_join_convolutions) {
  struct layer {
    std::int64_t in, out;
    conv2d_attributes conv;
    pool2d_attributes pool;
    bool maximum, activates;
  };
  const layer all[] = {
      {3, 32, {.padding = 1}, {}, true, true},
      {3, 21, {.stride = {1, 2}, .padding = {0, 1}}, {.kernel_size = 2, .stride = 3}, true, false},
      {32, 32, {.padding = 1}, {}, true, true},
      {32, 32, {.padding = 1}, {.kernel_size = {3, 2}}, true, true},
      {20, 40, {.stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 1}}, {.kernel_size = {1, 2}}, true, true},
      {16, 48, {.padding = 1}, {.kernel_size = {3, 1}}, false, false},
      {18, 33, {}, {.kernel_size = 4}, false, true},
      {3, 40, {.stride = 2, .padding = 3}, {.kernel_size = 3, .stride = 2, .padding = 1}, true, true},
      {18, 33, {.stride = {1, 2}}, {.kernel_size = 3, .stride = 1, .padding = 1}, false, true},
      {18,
       33,
       {.stride = {1, 2}},
       {.kernel_size = {5, 3}, .stride = 2, .padding = {2, 1}, .count_padding = false},
       false,
       true},
      {18,
       33,
       {.stride = {2, 1}, .padding = {1, 4}, .dilation = {2, 3}},
       {.kernel_size = 2, .stride = {1, 2}, .padding = 0, .padding_more = {1, 1}},
       false,
       true}};
  const auto is_pooled = [](const std::string& what) {
    return what.find("conv2d") == 0 && what.find("pool2d") != std::string::npos;
  };
  for (const auto& l : all)
    check_bands(l.in, l.out, is_pooled, [&](small_graph& g, const value& x, double odd) {
      array w = real({l.out, l.in, 3, 3}, 2);
      if (odd != 0) w.values[5] = odd;
      value h = conv2d(x, g.state("w", w), l.conv) + weight(g, "b", {l.out, 1, 1});
      if (l.activates) h = relu(h);
      return std::pair(h, l.maximum ? max_pool2d(h, l.pool) : value(avg_pool2d(h, l.pool)));
    });
}

// The rows that a padded pool reads above its part may begin at odd ones, and Winograd tiles begin at even ones.
BOOST_AUTO_TEST_CASE(padded_pools_give_the_same_bits_for_any_batch) {
  for (const pool2d_attributes& pool : {pool2d_attributes{.kernel_size = 2, .padding = 1},
                                        pool2d_attributes{.kernel_size = 3, .stride = 3, .padding = 1}}) {
    array results[2];
    for (const std::int64_t images : {1, 4}) {
      small_graph g;
      const value x = g.input(real({images, 32, 128, 64}, 1));
      g.output(max_pool2d(relu(conv2d(x, weight(g, "w", {32, 32, 3, 3}), {.padding = 1})), pool));
      results[images > 1] = g.run({}, 2)[0];
    }
    results[1].type = results[0].type;
    results[1].values.resize(results[0].values.size());
    BOOST_TEST(same_bits(results[0], results[1]));
  }
}

// A depthwise convolution does so too, with its bias and bounds.
BOOST_AUTO_TEST_CASE(depthwise_joins_convolutions) {
  struct layer {
    std::int64_t in, out, size;
    conv2d_attributes conv;
    extent2d filter;
    conv2d_attributes depthwise;
  };
  const layer all[] = {{20, 40, 1, {}, 3, {.padding = 1}},
                       {16, 96, 1, {}, 3, {.stride = 2, .padding = 1}},
                       {3, 48, 3, {.stride = {1, 2}, .padding = 1}, 3, {.padding = 1}},
                       {3, 64, 3, {.stride = {1, 2}, .padding = 1}, {3, 5}, {.stride = {2, 1}, .padding = {1, 2}}},
                       {17, 39, 1, {}, 5, {.stride = {1, 2}, .padding = 2}},
                       {17, 39, 1, {}, {2, 3}, {.padding = {0, 1}, .dilation = {3, 1}}},
                       {5, 48, 1, {}, 7, {.stride = 3}},
                       {20, 40, 3, {.stride = {1, 2}}, 1, {.stride = 2}}};
  const auto is_joined = [](const std::string& what) { return what == "conv2d + add + relu + conv2d + add + clamp"; };
  for (const auto& l : all)
    check_bands(l.in, l.out, is_joined, [&](small_graph& g, const value& x, double odd) {
      array filters = real({l.out, 1, l.filter.h, l.filter.w}, 3);
      if (odd != 0) filters.values[1] = odd;
      const value h =
          relu(conv2d(x, weight(g, "w", {l.out, l.in, l.size, l.size}), l.conv) + weight(g, "b", {l.out, 1, 1}));
      auto depthwise = l.depthwise;
      depthwise.groups = l.out;
      return std::pair(h,
                       clamp(conv2d(h, g.state("f", filters), depthwise) + weight(g, "c", {l.out, 1, 1}), -0.5, 0.75));
    });
}

BOOST_AUTO_TEST_CASE(pools_of_every_kind) {
  for (std::int64_t c : {16, 10})
    equal_layouts({2, 3, 9, 9}, [&](small_graph& g, const value& x) {
      value h = conv2d(x, weight(g, "a", {c, 3, 3, 3}), {.padding = 1});
      auto with_index = apply<op::max_pool2d>(pool2d_attributes{}, h);
      return values{max_pool2d(h, {.kernel_size = 3, .stride = 2, .padding = 1}),
                    avg_pool2d(h, {.kernel_size = 3, .stride = 2, .padding = 1}),
                    avg_pool2d(h, {.kernel_size = 2, .padding = 1, .count_padding = false}),
                    global_avg_pool2d(h),
                    with_index[0],
                    with_index[1],
                    reduce_max<axes(1)>(h)};
    });
}

BOOST_AUTO_TEST_CASE(what_follows_in_plain_layout) {
  equal_layouts({2, 4, 6, 6}, [](small_graph& g, const value& x) {
    value h = relu(conv2d(x, weight(g, "a", {18, 4, 3, 3}), {.padding = 1}));
    return values{flatten(h),
                  reshape(h, {2, 18, 36}),
                  permute(h, axes(0, 2, 3, 1)),
                  slice(h, {.start = 3, .stop = 17, .axis = 1}),
                  slice(h, {.start = 1}),
                  concat<1>(h, x),
                  softmax(h, {.axis = 1}),
                  argmax<1>(h),
                  h,
                  matmul(h, h),
                  shape_of(h)};
  });
}

BOOST_AUTO_TEST_CASE(float64_stays_plain) {
  small_graph g;
  value x = g.input(random_array(dtype::float64, {1, 16, 6, 6}, 1));
  g.output(conv2d(x, g.state("w", random_array(dtype::float64, {16, 16, 3, 3}, 2))));
  g.run();
  BOOST_TEST(!any_blocked(*g.plan));
}

BOOST_AUTO_TEST_CASE(weights_are_packed_anew_after_an_assignment) {
  small_graph g;
  value x = g.input(real({1, 16, 5, 5}, 1));
  g.output(conv2d(x, weight(g, "w", {16, 16, 3, 3})));
  auto first = g.run()[0];
  executor e(g.plan, &g.store);
  auto in = to_tensor(g.data[0]);
  any_tensor out(g.plan->output_types()[0]);
  e.bind_input(0, in.data());
  e.bind_output(0, out.mutable_data());
  e.run();
  BOOST_TEST(same_bits(from_tensor(out), first));
  auto other = real({16, 16, 3, 3}, 77);
  g.store.find("w")->assign(to_tensor(other));
  e.run();
  BOOST_TEST(!same_bits(from_tensor(out), first));
  BOOST_TEST(same_bits(from_tensor(out), g.run()[0]));
}

// A net that assigns states but trains no weights is inference: blocks and packed weights, except assigned weights.
BOOST_AUTO_TEST_CASE(a_net_that_assigns_states_is_blocked) {
  const auto build = [](small_graph& g, bool assigns) {
    const value x = g.input(real({2, 16, 9, 9}, 1)), count = g.state("count", array_of(dtype::float32, {1}, {3})),
                last = g.state("last", real({2, 19, 9, 9}, 2)), slow = weight(g, "slow", {19, 19, 1, 1});
    const value h = relu(conv2d(x, weight(g, "a", {19, 16, 3, 3}), {.padding = 1}) + weight(g, "b", {19, 1, 1}));
    const value y = conv2d(h, slow) + last;
    g.output(y);
    g.output(matmul<false, true>(flatten(h), weight(g, "c", {7, 19 * 81})) * reshape(count, {}));
    if (!assigns) return;
    g.p.assign(count, count + 1);
    g.p.assign(last, h);
    g.p.assign(slow, slow * 0.5);
  };
  small_graph still, counting;
  build(still, false);
  build(counting, true);
  const auto expected = still.run();
  const auto got = counting.run();
  for (std::size_t i = 0; i < expected.size(); ++i) BOOST_CHECK_LE(distance(got[i], expected[i]), 2e-5);
  BOOST_TEST(any_blocked(*counting.plan));
  const auto packs = [&](std::string_view name) {
    return std::ranges::any_of(counting.plan->packs(), [&](const auto& k) {
      return counting.plan->state_names()[static_cast<std::size_t>(k.state)] == name;
    });
  };
  BOOST_TEST(packs("a"));
  BOOST_TEST(packs("c"));
  BOOST_TEST(!packs("slow"));
  BOOST_TEST(counting.now("count").values[0] == 4);
  // A blocked value is stored to its state in plain layout, and read by the next run.
  small_graph again;
  const value x = again.input(real({2, 16, 9, 9}, 1));
  again.output(relu(conv2d(x, weight(again, "a", {19, 16, 3, 3}), {.padding = 1}) + weight(again, "b", {19, 1, 1})));
  BOOST_TEST(same_bits(counting.now("last"), again.run()[0]));
  counting.run();
  BOOST_TEST(counting.now("slow").values[0] == still.now("slow").values[0] * 0.25);
}

BOOST_AUTO_TEST_CASE(constants_are_packed_as_states_are) {
  const auto build = [](small_graph& g, bool constant) {
    const auto given = [&](const char* name, const shape& s) {
      const array a = real(s, static_cast<int>(name[0]), -0.4, 0.4);
      return constant ? g.p.constant(to_tensor(a)) : g.state(name, a);
    };
    const value x = g.input(real({2, 16, 9, 9}, 1));
    const value h = relu(conv2d(x, given("a", {19, 16, 3, 3}), {.padding = 1}) + given("b", {19, 1, 1}));
    const value y = conv2d(h, given("c", {32, 19, 1, 1}));
    g.output(y);
    g.output(matmul<false, true>(flatten(y), given("d", {7, 32 * 81})));
    g.output(matmul(reshape(y, {2, 32, 81}), reshape(given("e", {27, 3, 24}), {81, 24})));
  };
  small_graph states, constants;
  build(states, false);
  build(constants, true);
  const auto expected = states.run();
  const auto got = constants.run();
  for (std::size_t i = 0; i < expected.size(); ++i) BOOST_TEST(same_bits(got[i], expected[i]));
  const plan &with = *constants.plan, &without = *states.plan;
  BOOST_TEST(with.packs().empty());
  BOOST_TEST(with.cost().packed == without.cost().packed);
  BOOST_TEST(with.cost().steps == without.cost().steps);  // a run packs nothing
  BOOST_TEST(with.cost().arena == without.cost().arena);
  BOOST_TEST(memory_clash(with) == "");
  for (const auto& c : with.constants())
    BOOST_TEST((c.type().element == dtype::uint8));  // every constant is packed, none is read as given
}

// An image is split by channel blocks, and a pool by maps, depending on size: the bits equal those of an image that
// is not split, on any number of threads.
BOOST_AUTO_TEST_CASE(pieces_of_one_image_add_up_to_it) {
  struct window {
    std::int64_t in, out, size;
    conv2d_attributes how;
    std::int64_t kernel = 3;
  };
  const window windows[] = {{64, 96, 28, {.padding = 1}},
                            {64, 104, 28, {.stride = 2, .padding = 1}},
                            {128, 512, 14, {}, 1},
                            {3, 64, 56, {.stride = 2, .padding = 3}, 7},
                            {256, 250, 7, {.padding = 1}},
                            {96, 96, 56, {.padding = 1, .groups = 96}},
                            {144, 144, 56, {.stride = 2, .padding = 1, .groups = 144}}};
  for (const auto& w : windows) {
    const auto built = [&](std::int64_t images, small_graph& g) {
      array image = real({1, w.in, w.size, w.size}, 1), all = real({images, w.in, w.size, w.size}, 1);
      for (std::size_t i = 0; i < all.values.size(); ++i) all.values[i] = image.values[i % image.values.size()];
      const value x = g.input(all);
      const value y = relu(conv2d(x, weight(g, "w", {w.out, w.in / w.how.groups, w.kernel, w.kernel}), w.how) +
                           weight(g, "b", {w.out, 1, 1}));
      g.output(y);
      g.output(max_pool2d(y, {.kernel_size = 3, .stride = 2, .padding = 1}));
    };
    small_graph cut, whole;
    built(1, cut);
    built(4, whole);
    const auto expected = cut.run({}, 1);
    BOOST_TEST(std::ranges::any_of(cut.plan->stages(), [](const auto& s) { return s.count > 1; }));
    for (int threads : {2, 3, 8}) {
      const auto got = cut.run({}, threads);
      for (std::size_t i = 0; i < expected.size(); ++i) BOOST_TEST(same_bits(got[i], expected[i]));
    }
    const auto together = whole.run({}, 2);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& one = expected[i].values;
      BOOST_TEST(std::equal(one.begin(), one.end(), together[i].values.begin()));
    }
  }
}

// int8 nets give the same bits in both layouts, with operations fused into a convolution and a plain operand between.
BOOST_AUTO_TEST_CASE(quantized_images) {
  int states = 0, bits = 8;
  const auto fixed = [&](small_graph& g, array v) { return g.state("w" + std::to_string(++states), std::move(v)); };
  const auto number = [&](small_graph& g, double v) {
    return fixed(g, array_of(dtype::float32, {}, {static_cast<double>(static_cast<float>(v))}));
  };
  const auto as = [&](small_graph& g, double scale, int offset) {
    return quantization{number(g, scale), fixed(g, array_of(dtype::int8, {}, {static_cast<double>(offset)}))};
  };
  const auto product = [&](small_graph& g, const value& x, std::int64_t out, std::int64_t in, std::int64_t kernel,
                           int seed, conv2d_attributes conv) {
    const shape w{out, in, kernel, kernel};
    return quantized_conv2d(x, as(g, 0.02, 3),
                            {fixed(g, random_array(dtype::int8, w, seed, -(1 << (bits - 1)), 1 << (bits - 1))),
                             number(g, 0.01), fixed(g, random_array(dtype::int32, {out}, seed + 1, -2000, 2000))},
                            as(g, 0.02 * 0.01 * 40 * static_cast<double>(kernel), -5),
                            {conv, -100, 120, std::max(bits, 7)});
  };
  for (const auto& [channels, threads, of_weights] :
       {std::tuple(16, 1, 8), {16, 2, 7}, {24, 1, 7}, {24, 2, 8}, {40, 1, 5}, {40, 2, 8}, {40, 2, 7}}) {
    bits = of_weights;
    array results[2][5];
    bool blocked = false;
    for (const bool blocks : {false, true}) {
      small_graph g;
      const value x = g.input(random_array(dtype::int8, {2, 3, 15, 14}, 1, -128, 128)),
                  beside = g.input(random_array(dtype::int8, {2, channels, 8, 7}, 2, -128, 128));
      value h = product(g, x, channels, 3, 3, 11, {.stride = 2, .padding = 1});
      const value d = product(g, h, channels, 1, 3, 13, {.padding = 1, .groups = channels});
      h = quantized_add(product(g, d, channels, channels, 1, 15, {}), as(g, 0.05, 1), h, as(g, 0.04, -9),
                        as(g, 0.07, 2));
      h = quantized_add(beside, as(g, 0.05, 1), product(g, h, channels, channels, 3, 17, {.padding = 1}),
                        as(g, 0.03, 4), as(g, 0.07, 2));
      h = quantized_add(product(g, h, channels, channels, 3, 19, {.padding = 1}), as(g, 0.05, 1), beside,
                        as(g, 0.03, 4), as(g, 0.07, 2));
      h = quantized_table(max_pool2d(h, {.kernel_size = 2, .stride = 1}),
                          fixed(g, random_array(dtype::int8, {256}, 3, -128, 128)));
      g.output(h);
      g.output(product(g, h, 3, channels, 1, 21, {}));  // few channels stay plain
      const value mean = quantized_avg_pool2d(h, as(g, 0.02, 1), as(g, 0.01, 2), {.kernel_size = {7, 6}});
      g.output(mean);
      // Blocks of one pixel, which plain operations read.
      g.output(permute(mean, {1, 0, 2, 3}));
      g.output(permute(product(g, mean, channels, channels, 1, 23, {}), {1, 0, 2, 3}));
      const auto got = g.run({.blocked_layout = blocks}, threads);
      std::copy(got.begin(), got.end(), results[blocks]);
      blocked = any_blocked(*g.plan);
      if (!blocks) BOOST_TEST(!blocked);
      else if (blocked)  // if this machine has blocks for weights of 8 bits
        BOOST_TEST(g.plan->explain().find("quantized_conv2d + quantized_add") != std::string::npos);
    }
    if (bits <= 7 && has_wide_registers()) BOOST_TEST(blocked);
    for (int i = 0; i < 5; ++i) BOOST_TEST(results[0][i].values == results[1][i].values);
  }
}

// Swapped heads and rows are read and written in place, and copied where other operations read them.
BOOST_AUTO_TEST_CASE(rows_before_heads) {
  const auto swapped = [](const value& x) { return permute(x, {0, 2, 1, 3}); };
  for (const std::int64_t heads : {1, 4})
    for (const std::int64_t rows : {1, 70})
      for (const bool causal : {false, true})
        for (const int threads : {1, 2}) {
          std::vector<array> results[2];
          std::string plans[2];
          for (const bool shown : {false, true}) {
            small_graph g;
            const value q = swapped(g.input(real({2, rows, 4, 8}, 1))),
                        k = swapped(g.input(real({2, 75, heads, 8}, 2))),
                        v = swapped(g.input(real({2, 75, heads, 5}, 3)));
            const value all = attention(q, k, v, {.causal = causal});
            g.output(reshape(swapped(all), shape{2, rows, 20}));
            g.output(exp(attention(q, k, v, g.input(real({rows, 75}, 4)))));
            if (shown)
              for (const value& x : {q, k, v, all}) g.output(x);
            results[shown] = g.run({}, threads);
            plans[shown] = g.plan->explain();
          }
          BOOST_TEST(plans[0].find("permute") == std::string::npos, plans[0]);
          BOOST_TEST(plans[1].find("permute") != std::string::npos);
          for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(results[0][i].values == results[1][i].values);
        }
}

// Each operation is known by the type of its result.
BOOST_AUTO_TEST_CASE(lines_name_their_kernels) {
  small_graph g;
  const auto image = [&](int channels, int seed) { return g.input(real({1, channels, 20, 20}, seed)); };
  const value x = image(32, 1), few = g.input(real({1, 64}, 2)), many = g.input(real({9, 64}, 3)),
              w = weight(g, "a", {64, 40});
  g.output(conv2d(x, weight(g, "b", {48, 32, 3, 3}), {.padding = 1}));
  g.output(conv2d(x, weight(g, "c", {52, 32, 1, 1})));
  g.output(conv2d(image(80, 7), weight(g, "h", {56, 80, 1, 3})));
  g.output(conv2d(x, weight(g, "i", {36, 32, 1, 3})));
  g.output(conv2d(x, weight(g, "d", {32, 1, 3, 3}), {.padding = 1, .groups = 32}));
  g.output(conv2d(image(2, 4), weight(g, "e", {1, 2, 3, 3})));
  g.output(conv2d(image(33, 5), weight(g, "f", {1, 33, 1, 1})));
  g.output(matmul(few, w));
  g.output(matmul(many, w));
  g.output(matmul(many, g.input(real({64, 41}, 6))));
  g.output(softmax(many));
  g.run({});
  const auto kernel_of = [&](const shape& result) {
    for (const auto& l : g.plan->lines())
      if (l.result.dims == result && !l.what.starts_with("reorder")) return l.kernel;
    return std::string("no such line");
  };
  BOOST_TEST(kernel_of({1, 48, 20, 20}) == (has_wide_registers() ? "winograd 2x2" : "direct"));
  BOOST_TEST(kernel_of({1, 52, 20, 20}) == "direct");
  BOOST_TEST(kernel_of({1, 56, 20, 18}) == (has_wide_registers() ? "winograd 1x2" : "direct"));
  BOOST_TEST(kernel_of({1, 36, 20, 18}) == "direct");  // too few channels
  BOOST_TEST(kernel_of({1, 32, 20, 20}) == "depthwise");
  BOOST_TEST(kernel_of({1, 1, 18, 18}) == "tiles");
  BOOST_TEST(kernel_of({1, 1, 20, 20}) == "product");
  BOOST_TEST(kernel_of({1, 40}) == "packed");
  BOOST_TEST(kernel_of({9, 40}) == "packed");
  BOOST_TEST(kernel_of({9, 41}) == "unpacked");
  BOOST_TEST(kernel_of({9, 64}).empty());
  const auto plan = g.plan->explain();
  for (const auto& l : g.plan->lines())
    if (!l.kernel.empty()) BOOST_TEST(plan.find("  " + l.kernel + "  ") != std::string::npos, l.kernel);
}

// The names of Winograd convolutions with large tiles, and of convolutions in bands below a pool.
BOOST_AUTO_TEST_CASE(lines_name_bands_and_large_tiles) {
  const auto kernel = [](const shape& image, const pass_options& options, bool pooled) {
    small_graph g;
    const value x = g.input(real(image, 1));
    const value y = relu(conv2d(x, weight(g, "w", {64, image.at(1), 3, 3}), {.padding = 1}));
    g.output(pooled ? max_pool2d(y, {.kernel_size = 2}) : y);
    g.run(options);
    for (const auto& l : g.plan->lines())
      if (!l.kernel.empty()) return l.kernel;
    return std::string();
  };
  const bool wide = has_wide_registers();
  BOOST_TEST(kernel({1, 64, 40, 40}, {.fast_convolutions = true}, false) == (wide ? "winograd 4x4" : "direct"));
  BOOST_TEST(kernel({1, 64, 112, 112}, {}, true) == (wide ? "winograd bands" : "direct bands"));
  BOOST_TEST(kernel({1, 1, 224, 224}, {}, true) == "direct bands");
}

BOOST_AUTO_TEST_SUITE_END()
