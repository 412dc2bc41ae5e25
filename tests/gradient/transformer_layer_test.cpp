// Layers of transformers against plain loops in double; their parameter names and gradients.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

module lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using parameters = std::vector<std::pair<std::string, shape>>;

// A scope that records the requested parameters, or returns values by name.
struct test_scope {
  program* owner;
  dtype element;
  parameters* asked;
  const std::map<std::string, value>* given;
  std::string path;

  value parameter(std::string_view name, const shape& dims, const initializer&) const {
    const std::string whole = path + std::string(name);
    if (given) return given->at(whole);
    asked->emplace_back(whole, dims);
    return owner->input(whole, {element, dims});
  }
  value constant(const shape&, double v) const { return owner->number(v, element); }
  bool training() const { return false; }
  value random_state() const { return {}; }
  std::int64_t next_site() const { return 0; }
  template <class L, class... V> value operator()(std::string_view name, const L& layer, const V&... in) const {
    test_scope inner{owner, element, asked, given, path + std::string(name) + "."};
    const value inputs[] = {in...};
    value out;
    lamina::detail::run_layer(inner, layer, view<const value>(inputs, sizeof...(in)), view<value>(&out, 1));
    return out;
  }
};
template <class L> value forward(test_scope& s, const L& layer, const std::vector<value>& x, std::size_t ports) {
  value y;
  lamina::detail::run_layer(s, layer, view<const value>(x.data(), ports), view<value>(&y, 1));
  return y;
}
template <class L> parameters names_of(const L& layer, const std::vector<shape>& in) {
  program p;
  parameters asked;
  test_scope s{&p, dtype::float64, &asked, nullptr, ""};
  std::vector<value> x;
  for (const auto& dims : in) x.push_back(p.input("x", {dtype::float64, dims}));
  forward(s, layer, x, in.size());
  return asked;
}

// A layer with random inputs and parameters.
template <class L> struct numbered {
  L layer;
  std::size_t ports;
  parameters names;
  std::vector<array> in;

  numbered(const L& l, const std::vector<shape>& shapes) : layer(l), ports(shapes.size()), names(names_of(l, shapes)) {
    int seed = 1;
    for (const auto& s : shapes) in.push_back(real(s, seed++));
    for (const auto& [name, dims] : names) in.push_back(real(dims, seed++, -1, 1));
  }
  value operator()(const std::vector<value>& x) const {
    std::map<std::string, value> given;
    for (std::size_t i = 0; i < names.size(); ++i) given[names[i].first] = x[ports + i];
    test_scope s{&x[0].owner(), dtype::float64, nullptr, &given, ""};
    return forward(s, layer, x, ports);
  }
  array run() const {
    return result_of(in, [&](const auto& x) { return (*this)(x); });
  }
  const std::vector<double>& operator[](const std::string& name) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i].first == name) return in[ports + i].values;
    BOOST_FAIL("no parameter " + name);
    return in[0].values;
  }
};

// ---- plain loops, on rows of features -------------------------------------------------------------------------------
using numbers = std::vector<double>;

numbers linear_by_hand(const numbers& x, const double* w, const double* b, std::size_t in, std::size_t out) {
  numbers y;
  for (std::size_t r = 0; r < x.size(); r += in)
    for (std::size_t o = 0; o < out; ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < in; ++i) sum += x[r + i] * w[o * in + i];
      y.push_back(sum);
    }
  return y;
}
template <class Layer>
numbers linear_by_hand(const Layer& l, const std::string& name, const numbers& x, std::size_t in, std::size_t out) {
  return linear_by_hand(x, l[name + ".weight"].data(), l[name + ".bias"].data(), in, out);
}
template <class Layer> numbers norm_by_hand(const Layer& l, const std::string& name, numbers x, std::size_t n) {
  for (std::size_t r = 0; r < x.size(); r += n) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[r + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) variance += (x[r + i] - mean) * (x[r + i] - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      x[r + i] = (x[r + i] - mean) / std::sqrt(variance + 1e-5) * l[name + ".weight"][i] + l[name + ".bias"][i];
  }
  return x;
}
// x [N, T, E], y [N, S, E]
template <class Layer> numbers attention_by_hand(const Layer& l, const std::string& path, const numbers& x,
                                                 const numbers& y, std::size_t batch, std::size_t features,
                                                 std::size_t heads, bool causal) {
  const std::size_t queries = x.size() / batch / features, keys = y.size() / batch / features, depth = features / heads,
                    square = features * features;
  const double *w = l[path + "in_proj_weight"].data(), *b = l[path + "in_proj_bias"].data();
  const numbers q = linear_by_hand(x, w, b, features, features),
                k = linear_by_hand(y, w + square, b + features, features, features),
                v = linear_by_hand(y, w + 2 * square, b + 2 * features, features, features);
  numbers mixed(x.size());
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t t = 0; t < queries; ++t) {
        numbers p;
        double total = 0;
        for (std::size_t s = 0; s < keys; ++s) {
          double score = 0;
          for (std::size_t d = 0; d < depth; ++d)
            score += q[(n * queries + t) * features + h * depth + d] * k[(n * keys + s) * features + h * depth + d];
          p.push_back(causal && s > t ? 0 : std::exp(score / std::sqrt(static_cast<double>(depth))));
          total += p.back();
        }
        for (std::size_t s = 0; s < keys; ++s)
          for (std::size_t d = 0; d < depth; ++d)
            mixed[(n * queries + t) * features + h * depth + d] +=
                p[s] / total * v[(n * keys + s) * features + h * depth + d];
      }
  return linear_by_hand(l, path + "out_proj", mixed, features, features);
}
numbers sum(numbers a, const numbers& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
template <class Layer>
numbers fed_by_hand(const Layer& l, const numbers& x, std::size_t features, std::size_t hidden, bool gelu) {
  numbers h = linear_by_hand(l, "linear1", x, features, hidden);
  for (double& v : h) v = gelu ? v * 0.5 * std::erfc(-v * 0.7071067811865476) : std::max(v, 0.0);
  return linear_by_hand(l, "linear2", h, hidden, features);
}
void near(const array& got, const numbers& want) {
  BOOST_REQUIRE(got.values.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) BOOST_TEST(std::abs(got.values[i] - want[i]) < 1e-11);
}

const std::vector<shape> one{{2, 3, 4}}, two{{2, 3, 4}, {2, 5, 4}};

}  // namespace

BOOST_AUTO_TEST_SUITE(transformer_layers)

BOOST_AUTO_TEST_CASE(parameters_have_the_names_of_pytorch) {
  const parameters attention{
      {"in_proj_weight", {12, 4}}, {"in_proj_bias", {12}}, {"out_proj.weight", {4, 4}}, {"out_proj.bias", {4}}};
  BOOST_TEST((names_of(nn::self_attention{4, 2}, one) == attention));
  BOOST_TEST((names_of(nn::multi_head_attention{4, 2}, {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}}) == attention));
  std::vector<std::string> got;
  for (const auto& [name, dims] :
       names_of(nn::transformer_decoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6}, two))
    got.push_back(name);
  std::sort(got.begin(), got.end());
  const std::vector<std::string> want{"linear1.bias",
                                      "linear1.weight",
                                      "linear2.bias",
                                      "linear2.weight",
                                      "multihead_attn.in_proj_bias",
                                      "multihead_attn.in_proj_weight",
                                      "multihead_attn.out_proj.bias",
                                      "multihead_attn.out_proj.weight",
                                      "norm1.bias",
                                      "norm1.weight",
                                      "norm2.bias",
                                      "norm2.weight",
                                      "norm3.bias",
                                      "norm3.weight",
                                      "self_attn.in_proj_bias",
                                      "self_attn.in_proj_weight",
                                      "self_attn.out_proj.bias",
                                      "self_attn.out_proj.weight"};
  BOOST_TEST(got == want, boost::test_tools::per_element());
  BOOST_TEST((names_of(nn::swiglu{4, 6}, one) ==
              parameters{{"gate_proj.weight", {6, 4}}, {"up_proj.weight", {6, 4}}, {"down_proj.weight", {4, 6}}}));
  BOOST_TEST((
      names_of(nn::grouped_query_attention{.embed_dim = 4, .num_heads = 2, .num_kv_heads = 1}, one) ==
      parameters{
          {"q_proj.weight", {4, 4}}, {"k_proj.weight", {2, 4}}, {"v_proj.weight", {2, 4}}, {"o_proj.weight", {4, 4}}}));
  BOOST_TEST((names_of(nn::self_attention{.embed_dim = 4, .num_heads = 2, .bias = false}, one) ==
              parameters{{"in_proj_weight", {12, 4}}, {"out_proj.weight", {4, 4}}}));
}

BOOST_AUTO_TEST_CASE(attention_of_several_heads) {
  for (bool causal : {false, true}) {
    numbered own(nn::self_attention{.embed_dim = 4, .num_heads = 2, .causal = causal}, one);
    near(own.run(), attention_by_hand(own, "", own.in[0].values, own.in[0].values, 2, 4, 2, causal));
  }
  numbered other(nn::multi_head_attention{.embed_dim = 4, .num_heads = 4}, {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}});
  other.in[2].values = other.in[1].values;
  near(other.run(), attention_by_hand(other, "", other.in[0].values, other.in[1].values, 2, 4, 4, false));
}

BOOST_AUTO_TEST_CASE(encoder_layer) {
  for (bool first : {false, true})
    for (auto f : {nn::feedforward_activation::relu, nn::feedforward_activation::gelu}) {
      numbered l(
          nn::transformer_encoder_layer{
              .d_model = 4, .nhead = 2, .dim_feedforward = 6, .activation = f, .norm_first = first},
          one);
      const numbers& x = l.in[0].values;
      const auto seen = [&](const numbers& v) { return attention_by_hand(l, "self_attn.", v, v, 2, 4, 2, false); };
      const auto fed = [&](const numbers& v) { return fed_by_hand(l, v, 4, 6, f == nn::feedforward_activation::gelu); };
      numbers want;
      if (first) {
        const numbers y = sum(x, seen(norm_by_hand(l, "norm1", x, 4)));
        want = sum(y, fed(norm_by_hand(l, "norm2", y, 4)));
      } else {
        const numbers y = norm_by_hand(l, "norm1", sum(x, seen(x)), 4);
        want = norm_by_hand(l, "norm2", sum(y, fed(y)), 4);
      }
      near(l.run(), want);
    }
}

BOOST_AUTO_TEST_CASE(decoder_layer) {
  for (bool first : {false, true}) {
    numbered l(nn::transformer_decoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6, .norm_first = first}, two);
    const numbers &x = l.in[0].values, &memory = l.in[1].values;
    const auto own = [&](const numbers& v) { return attention_by_hand(l, "self_attn.", v, v, 2, 4, 2, true); };
    const auto other = [&](const numbers& v) {
      return attention_by_hand(l, "multihead_attn.", v, memory, 2, 4, 2, false);
    };
    numbers want;
    if (first) {
      const numbers a = sum(x, own(norm_by_hand(l, "norm1", x, 4))), b = sum(a, other(norm_by_hand(l, "norm2", a, 4)));
      want = sum(b, fed_by_hand(l, norm_by_hand(l, "norm3", b, 4), 4, 6, false));
    } else {
      const numbers a = norm_by_hand(l, "norm1", sum(x, own(x)), 4), b = norm_by_hand(l, "norm2", sum(a, other(a)), 4);
      want = norm_by_hand(l, "norm3", sum(b, fed_by_hand(l, b, 4, 6, false)), 4);
    }
    near(l.run(), want);
  }
}

BOOST_AUTO_TEST_CASE(a_causal_layer_does_not_see_what_follows) {
  numbered l(nn::transformer_encoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6, .causal = true},
             {{1, 5, 4}});
  const array before = l.run();
  for (std::size_t i = 12; i < 20; ++i) l.in[0].values[i] += 3;  // positions 3 and 4
  const array after = l.run();
  for (std::size_t i = 0; i < 12; ++i) BOOST_TEST(before.values[i] == after.values[i]);
  for (std::size_t i = 12; i < 20; ++i) BOOST_TEST(before.values[i] != after.values[i]);
}

// A lower triangular mask, bool or additive, is equivalent to `causal`; a mask that hides the last key of sample 1 is
// equivalent to a shorter memory.
BOOST_AUTO_TEST_CASE(masks_are_ports) {
  const numbers triangle{1, 0, 0, 1, 1, 0, 1, 1, 1};
  numbers added;
  for (double v : triangle) added.push_back(v > 0 ? 0 : -1e30);
  const array masks[] = {array_of(dtype::boolean, {3, 3}, triangle), array_of(dtype::float64, {1, 1, 3, 3}, added)};
  for (const auto& m : masks) {
    numbered own(nn::self_attention{.embed_dim = 4, .num_heads = 2, .mask = true}, {{2, 3, 4}, m.shape()});
    own.in[1] = m;
    near(own.run(), attention_by_hand(own, "", own.in[0].values, own.in[0].values, 2, 4, 2, true));
    numbered encoder(nn::transformer_encoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6, .mask = true},
                     {{2, 3, 4}, m.shape()});
    encoder.in[1] = m;
    numbered causal(nn::transformer_encoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6, .causal = true}, one);
    causal.in.assign(1, encoder.in[0]);
    causal.in.insert(causal.in.end(), encoder.in.begin() + 2, encoder.in.end());
    near(encoder.run(), causal.run().values);
  }
  const array without_last = array_of(dtype::boolean, {1, 1, 1, 5}, {1, 1, 1, 1, 0});
  numbered other(nn::multi_head_attention{.embed_dim = 4, .num_heads = 2, .mask = true},
                 {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {1, 1, 1, 5}});
  other.in[2].values = other.in[1].values;
  other.in[3] = without_last;
  numbers memory;
  for (std::size_t i = 0; i < 40; ++i)
    if (i % 20 < 16) memory.push_back(other.in[1].values[i]);
  near(other.run(), attention_by_hand(other, "", other.in[0].values, memory, 2, 4, 2, false));
  numbered decoder(nn::transformer_decoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6, .mask = true},
                   {{2, 3, 4}, {2, 5, 4}, {1, 1, 1, 5}});
  decoder.in[2] = without_last;
  numbered shorter(nn::transformer_decoder_layer{.d_model = 4, .nhead = 2, .dim_feedforward = 6},
                   {{2, 3, 4}, {2, 4, 4}});
  shorter.in.assign({decoder.in[0], array_of(dtype::float64, {2, 4, 4}, {})});
  for (std::size_t i = 0; i < 40; ++i)
    if (i % 20 < 16) shorter.in[1].values.push_back(decoder.in[1].values[i]);
  shorter.in.insert(shorter.in.end(), decoder.in.begin() + 3, decoder.in.end());
  near(decoder.run(), shorter.run().values);
}

BOOST_AUTO_TEST_CASE(rows_of_a_table) {
  const array ids = array_of(dtype::int64, {2, 2}, {2, 0, 2, 1}), table = real({3, 4}, 1);
  const auto embedded = [](const auto& x) {
    const std::map<std::string, value> given{{"weight", x[1]}};
    test_scope s{&x[0].owner(), dtype::float64, nullptr, &given, ""};
    return values{nn::embedding{3, 4}.forward(s, x[0])};
  };
  const array rows = results_of({ids, table}, embedded)[0];
  for (std::size_t i = 0; i < 16; ++i)
    BOOST_TEST(rows.values[i] == table.values[static_cast<std::size_t>(ids.values[i / 4]) * 4 + i % 4]);
  for (const auto& some :
       {array_of(dtype::int64, {2, 2}, {2, 0, 2, 1}), array_of(dtype::int64, {3}, {1, 1, 1}),
        array_of(dtype::int64, {0}, {}), array_of(dtype::int64, {}, {2}), array_of(dtype::int64, {1, 1}, {0})})
    check("embedding", {some, table}, embedded);
}

BOOST_AUTO_TEST_CASE(gradients_of_layers) {
  const auto checked = [](const char* name, const auto& layer) {
    check(name, layer.in, [&](const auto& x) { return values{layer(x)}; }, true, extents_known::when_built);
  };
  checked("encoder layer", numbered(nn::transformer_encoder_layer{.d_model = 4,
                                                                  .nhead = 2,
                                                                  .dim_feedforward = 3,
                                                                  .activation = nn::feedforward_activation::gelu,
                                                                  .causal = true},
                                    {{1, 3, 4}}));
  checked("encoder layer, norm first",
          numbered(nn::transformer_encoder_layer{.d_model = 2,
                                                 .nhead = 1,
                                                 .dim_feedforward = 3,
                                                 .activation = nn::feedforward_activation::gelu,
                                                 .norm_first = true},
                   {{2, 2, 2}}));
  checked("decoder layer",
          numbered(
              nn::transformer_decoder_layer{
                  .d_model = 4, .nhead = 2, .dim_feedforward = 3, .activation = nn::feedforward_activation::gelu},
              {{1, 3, 4}, {1, 2, 4}}));
  checked("attention with a mask of numbers",
          numbered(nn::self_attention{.embed_dim = 4, .num_heads = 2, .mask = true}, {{2, 3, 4}, {2, 1, 3, 3}}));
  checked("attention to others with a mask",
          numbered(nn::multi_head_attention{.embed_dim = 2, .num_heads = 1, .mask = true},
                   {{1, 2, 2}, {1, 3, 2}, {1, 3, 2}, {2, 3}}));
  for (const auto& s : {shape{2, 4}, shape{1, 4}, shape{0, 4}, shape{2, 3, 4}, shape{1, 1, 4}})
    checked("swiglu", numbered(nn::swiglu{4, 3}, {s}));
  for (const auto& s : {shape{1, 3, 4}, shape{2, 1, 4}, shape{1, 1, 4}, shape{2, 2, 4}, shape{0, 2, 4}})
    checked("decoder layer",
            numbered(
                nn::transformer_decoder_layer{
                    .d_model = 4, .nhead = 2, .dim_feedforward = 3, .activation = nn::feedforward_activation::gelu},
                {s, {s[0], 2, 4}}));
  checked("group_norm", numbered(nn::group_norm{2, 4}, {{2, 4, 3}}));
  checked("batch_norm1d's neighbor, instance_norm",
          numbered(nn::instance_norm{.num_features = 2, .affine = true}, {{2, 2, 3}}));
}

BOOST_AUTO_TEST_SUITE_END()
