// Models as exporters write them: recognized blocks give the results of the separate operators.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

#include "../support/onnx_writer.h"

namespace t = onnx_test;
using namespace lamina;
using t::bytes;

namespace {

using list = std::vector<float>;
using counts = std::map<std::string, std::int64_t>;

// A graph that names its values automatically.
struct node_list {
  std::vector<bytes> nodes{}, constants{}, inputs{};
  std::vector<any_tensor> given{};
  int names = 0;

  bytes name() { return "v" + std::to_string(names++); }
  bytes node(const bytes& op, const t::names& in, const t::names& attributes = {}) {
    const bytes n = name();
    nodes.push_back(t::node(op, in, {n}, attributes));
    return n;
  }
  bytes number(float v) {
    const bytes n = name();
    constants.push_back(t::floats(n, {}, {v}));
    return n;
  }
  bytes longs(const t::numbers& v) {
    const bytes n = name();
    constants.push_back(t::longs(n, {static_cast<std::int64_t>(v.size())}, v));
    return n;
  }
  bytes floats(const t::numbers& dims, const list& v) {
    const bytes n = name();
    constants.push_back(t::floats(n, dims, v));
    return n;
  }
  bytes weights(const t::numbers& dims, float scale = 0.3f) {
    std::int64_t count = 1;
    for (auto d : dims) count *= d;
    list v = t::noise(static_cast<std::size_t>(count), static_cast<std::uint32_t>(names) + 1);
    for (auto& x : v) x *= scale;
    return floats(dims, v);
  }
  bytes input(const bytes& n, const shape& s) {
    t::extents dims;
    for (int i = 0; i < s.rank; ++i) dims.emplace_back(s.at(i));
    inputs.push_back(t::value(n, t::float32, dims));
    any_tensor made({dtype::float32, s});
    const list v = t::noise(static_cast<std::size_t>(s.size()), static_cast<std::uint32_t>(inputs.size()) + 70);
    std::memcpy(made.mutable_data(), v.data(), made.type().bytes());
    given.push_back(std::move(made));
    return n;
  }
};

using pass_counts = std::remove_cvref_t<decltype(std::declval<const plan&>().counters())>;
struct outcome {
  list y;
  pass_counts counters;
};
outcome run(const saved_net& net, const std::vector<any_tensor>& given, const pass_options& o = {}) {
  std::vector<shape> dims;
  for (const auto& x : given) dims.push_back(x.shape());
  const auto plan = make_plan(*net.program, dims, target_isa(), o);
  parameter_store states = net.states;
  outcome made{{}, plan->counters()};
  for (const auto& y : executor(plan, &states).run(view<const any_tensor>(given.data(), given.size())))
    for (float v : y.elements<float>()) made.y.push_back(v);
  return made;
}
// Compares the simplified graph with its separate operators; returns the counts of the passes.
pass_counts check(const node_list& g, const std::vector<bytes>& outputs) {
  std::vector<bytes> results;
  for (const auto& n : outputs) results.push_back(t::untyped(n));
  const bytes model = t::model{
      .main = {.nodes = g.nodes, .inputs = g.inputs, .outputs = results, .initializers = g.constants},
      .opsets = {t::opset(
          "", 17)}}.done();
  const auto net = onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx");
  const auto made = run(net, g.given), plain = run(net, g.given, {.simplify = false});
  BOOST_REQUIRE_EQUAL(made.y.size(), plain.y.size());
  for (std::size_t i = 0; i < made.y.size(); ++i)
    BOOST_REQUIRE(std::abs(made.y[i] - plain.y[i]) <= 2e-5f * (1 + std::abs(plain.y[i])));
  return made.counters;
}

// A decoder block of Llama: shared keys, rotary positions in halves, the mask that an exporter writes for `causal`.
struct decoder {
  std::int64_t past = 0, length = 6, heads = 4, groups = 2, depth = 8;
  float hidden = std::numeric_limits<float>::lowest();  // the number that masks a score: added or selected
  bool by_condition = false, expands = true;
  node_list g{};
  bytes cosine{}, sine{};

  std::int64_t features() const { return heads * depth; }
  bytes rms(const bytes& x) {
    const bytes mean = g.node("ReduceMean", {g.node("Pow", {x, g.number(2)})}, {t::integers("axes", {-1})});
    const bytes root = g.node("Sqrt", {g.node("Add", {mean, g.number(1e-6f)})});
    return g.node("Mul", {g.weights({features()}), g.node("Mul", {x, g.node("Div", {g.number(1), root})})});
  }
  bytes split(const bytes& x, std::int64_t count) {
    const bytes y = g.node("MatMul", {x, g.weights({features(), count * depth})});
    return g.node("Transpose", {g.node("Reshape", {y, g.longs({0, 0, count, depth})})},
                  {t::integers("perm", {0, 2, 1, 3})});
  }
  bytes rotated(const bytes& x) {
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return g.node("Slice", {x, g.longs({from}), g.longs({to}), g.longs({3})});
    };
    const bytes turned =
        g.node("Concat", {g.node("Neg", {part(depth / 2, INT64_MAX)}), part(0, depth / 2)}, {t::integer("axis", -1)});
    return g.node("Add", {g.node("Mul", {x, cosine}), g.node("Mul", {turned, sine})});
  }
  bytes repeated(const bytes& x) {
    if (!expands) return x;
    const std::int64_t all = past + length;
    const bytes apart = g.node("Unsqueeze", {x, g.longs({2})});
    const bytes tiled = g.node("Expand", {apart, g.longs({1, groups, heads / groups, all, depth})});
    return g.node("Reshape", {tiled, g.longs({1, heads, all, depth})});
  }
  bytes masked(const bytes& scores) {
    const std::int64_t all = past + length;
    const auto rows = [&](const bytes& m) {
      return g.node("Slice", {m, g.longs({past}), g.longs({all}), g.longs({0})});
    };
    const auto square = [&](float v) { return g.floats({all, all}, list(static_cast<std::size_t>(all * all), v)); };
    const bytes diagonal = g.name();
    g.constants.push_back(t::longs(diagonal, {}, {by_condition ? 0 : 1}));
    const bytes half = rows(
        g.node("Trilu", {square(by_condition ? 1 : hidden), diagonal}, {t::integer("upper", by_condition ? 0 : 1)}));
    if (!by_condition) return g.node("Add", {scores, half});
    return g.node("Where", {g.node("Cast", {half}, {t::integer("to", t::boolean)}), scores, g.number(hidden)});
  }
  pass_counts counted() {
    bytes x = g.input("x", {1, length, features()});
    const bytes angle = g.weights({1, 1, length, depth}, 3);
    cosine = g.node("Cos", {angle}), sine = g.node("Sin", {angle});
    bytes h = rms(x);
    const bytes q = rotated(split(h, heads));
    bytes k = rotated(split(h, groups)), v = split(h, groups);
    std::vector<bytes> outputs;
    if (past) {
      const shape cache{1, groups, past, depth};
      k = g.node("Concat", {g.input("keys", cache), k}, {t::integer("axis", 2)});
      v = g.node("Concat", {g.input("values", cache), v}, {t::integer("axis", 2)});
      outputs = {k, v};
    }
    const bytes keys = g.node("Transpose", {repeated(k)}, {t::integers("perm", {0, 1, 3, 2})});
    const bytes scores =
        g.node("Mul", {g.node("MatMul", {q, keys}), g.number(1 / std::sqrt(static_cast<float>(depth)))});
    const bytes weights = g.node("Softmax", {masked(scores)}, {t::integer("axis", -1)});
    const bytes heads_of =
        g.node("Transpose", {g.node("MatMul", {weights, repeated(v)})}, {t::integers("perm", {0, 2, 1, 3})});
    const bytes joined = g.node("Reshape", {heads_of, g.longs({0, 0, features()})});
    x = g.node("Add", {x, g.node("MatMul", {joined, g.weights({features(), features()})})});
    h = rms(x);
    const bytes gate = g.node("MatMul", {h, g.weights({features(), 48})}),
                up = g.node("MatMul", {h, g.weights({features(), 48})});
    const bytes opened = g.node("Mul", {g.node("Mul", {gate, g.node("Sigmoid", {gate})}), up});
    outputs.insert(outputs.begin(), g.node("Add", {x, g.node("MatMul", {opened, g.weights({48, features()})})}));
    return check(g, outputs);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(forms_of_exporters)

BOOST_AUTO_TEST_CASE(blocks_of_decoders) {
  const counts all{{"attention", 1}, {"rms_norm", 2}, {"rotary_embedding", 2}, {"silu", 1}};
  for (const std::int64_t past : {0, 5})
    for (const bool by_condition : {false, true})
      for (const bool shared : {false, true})
        for (const std::int64_t length : {1, 6}) {
          decoder d{.past = past, .length = length, .by_condition = by_condition};
          if (!shared) d.groups = d.heads, d.expands = false;
          const auto c = d.counted();
          BOOST_TEST((c.recognized() == all));
          BOOST_TEST(c.missed.empty());
        }
  decoder small{.hidden = -1e3f, .by_condition = true};
  const auto c = small.counted();
  BOOST_TEST(!c.recognized().contains("attention"));
  BOOST_REQUIRE_EQUAL(c.missed.size(), 1u);
  BOOST_TEST(c.missed[0].find("is not attention: its scores are masked by `where`") != std::string::npos, c.missed[0]);
}

// A group normalization as PyTorch writes it: normalized by groups with ones and zeros, then factors and terms of
// channels.
BOOST_AUTO_TEST_CASE(group_normalization) {
  node_list g;
  const bytes x = g.input("x", {2, 8, 5, 3});
  const bytes rows = g.node("Reshape", {x, g.longs({0, 4, -1})});
  const bytes normal = g.node("InstanceNormalization", {rows, g.floats({4}, list(4, 1)), g.floats({4}, list(4, 0))});
  const bytes y = g.node("Mul", {g.node("Reshape", {normal, g.longs({2, 8, 5, 3})}), g.weights({8, 1, 1})});
  const bytes out = g.node("Add", {y, g.weights({8, 1, 1})});
  (void)check(g, {out});
  const bytes model = t::model{
      .main = {.nodes = g.nodes, .inputs = g.inputs, .outputs = {t::untyped(out)}, .initializers = g.constants},
      .opsets = {t::opset(
          "", 17)}}.done();
  const auto net = onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx");
  const shape dims[] = {{2, 8, 5, 3}};
  const auto plan = make_plan(*net.program, dims, target_isa());
  BOOST_REQUIRE_EQUAL(plan->lines().size(), 2u);  // factors and terms take one pass
  BOOST_TEST(plan->lines()[0].what == "layer_norm");
  BOOST_TEST(plan->lines()[1].what == "multiply + add");
}

BOOST_AUTO_TEST_SUITE_END()
