// Recurrent layers against their formulas in double, and their gradients against differences.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

#include "gradient_check.h"

#include "run_layer.h"

#include "sources.h"

using namespace lamina;
using namespace engine_test;

namespace {

array real(const shape& s, int seed) { return random_array(dtype::float64, s, seed, -0.8, 0.8); }
array lengths_of(const std::vector<double>& v) { return array_of(dtype::int64, {dim(v.size())}, v); }

// ---- the formulas -----------------------------------------------------------------------------------------------------

double sigma(double x) { return 1 / (1 + std::exp(-x)); }
using row = std::vector<double>;
// W x + b for W [out, in] from row `from` on.
row affine(const array& w, const row& x, const array* b, std::size_t from, std::size_t rows) {
  row y(rows);
  auto in = x.size();
  for (std::size_t o = 0; o < rows; ++o) {
    y[o] = b ? b->values[from + o] : 0;
    for (std::size_t i = 0; i < in; ++i) y[o] += w.values[(from + o) * in + i] * x[i];
  }
  return y;
}
struct cell_state {
  row h, c;
};
using stepper = std::function<cell_state(const row& x, const cell_state& before, const std::string& suffix)>;

cell_state lstm_formula(const table& p, const row& x, const cell_state& m, const std::string& s,
                        bool peephole = false) {
  auto n = m.c.size();
  auto gate = [&](std::size_t k) {
    row a = affine(p.at("weight_ih" + s), x, &p.at("bias_ih" + s), k * n, n),
        b = affine(p.at("weight_hh" + s), m.h, &p.at("bias_hh" + s), k * n, n);
    for (std::size_t j = 0; j < n; ++j) a[j] += b[j];
    return a;
  };
  row i = gate(0), f = gate(1), g = gate(2), o = gate(3);
  cell_state next = m;
  row out(n);
  auto see = [&](std::size_t k, std::size_t j, double c) {
    return peephole ? p.at("weight_p" + s).values[k * n + j] * c : 0;
  };
  for (std::size_t j = 0; j < n; ++j) {
    next.c[j] = sigma(f[j] + see(1, j, m.c[j])) * m.c[j] + sigma(i[j] + see(0, j, m.c[j])) * std::tanh(g[j]);
    out[j] = sigma(o[j] + see(2, j, next.c[j])) * std::tanh(next.c[j]);
  }
  const auto projection = p.find("weight_hr" + s);
  next.h = projection == p.end() ? out : affine(projection->second, out, nullptr, 0, m.h.size());
  return next;
}
cell_state gru_formula(const table& p, const row& x, const cell_state& m, const std::string& s, nn::gru_form form) {
  auto n = m.h.size();
  auto of_x = [&](std::size_t k) { return affine(p.at("weight_ih" + s), x, &p.at("bias_ih" + s), k * n, n); };
  auto of_h = [&](std::size_t k, const row& h) {
    return affine(p.at("weight_hh" + s), h, &p.at("bias_hh" + s), k * n, n);
  };
  row xr = of_x(0), xz = of_x(1), xn = of_x(2), hr = of_h(0, m.h), hz = of_h(1, m.h), hn = of_h(2, m.h), reset(n);
  for (std::size_t j = 0; j < n; ++j) reset[j] = sigma(xr[j] + hr[j]) * m.h[j];
  if (form != nn::gru_form::reset_after) hn = of_h(2, reset);
  cell_state next = m;
  for (std::size_t j = 0; j < n; ++j) {
    double r = sigma(xr[j] + hr[j]), z = sigma(xz[j] + hz[j]),
           u = std::tanh(xn[j] + (form == nn::gru_form::reset_after ? r * hn[j] : hn[j]));
    next.h[j] = form == nn::gru_form::reversed ? z * u + (1 - z) * m.h[j] : (1 - z) * u + z * m.h[j];
  }
  return next;
}
cell_state rnn_formula(const table& p, const row& x, const cell_state& m, const std::string& s) {
  row a = affine(p.at("weight_ih" + s), x, &p.at("bias_ih" + s), 0, m.h.size()),
      b = affine(p.at("weight_hh" + s), m.h, &p.at("bias_hh" + s), 0, m.h.size());
  cell_state next = m;
  for (std::size_t j = 0; j < a.size(); ++j) next.h[j] = std::tanh(a[j] + b[j]);
  return next;
}

// Stacked layers and directions over x [T, N, I]; positions after a sample's length are ignored.
struct walked {
  array output, hn, cn;
};
walked walk(const array& x, std::size_t hidden, std::size_t layers, std::size_t directions, const stepper& step,
            const array* h0, const array* c0, const array* lengths, std::size_t projected = 0) {
  const std::size_t features = projected ? projected : hidden;
  auto iterations = static_cast<std::size_t>(x.shape().at(0)), samples = static_cast<std::size_t>(x.shape().at(1));
  std::vector<std::vector<row>> now(iterations, std::vector<row>(samples));
  auto in = static_cast<std::size_t>(x.shape().at(2));
  for (std::size_t t = 0; t < iterations; ++t)
    for (std::size_t n = 0; n < samples; ++n)
      now[t][n].assign(x.values.begin() + static_cast<std::ptrdiff_t>((t * samples + n) * in),
                       x.values.begin() + static_cast<std::ptrdiff_t>((t * samples + n + 1) * in));
  walked w;
  for (std::size_t l = 0; l < layers; ++l) {
    std::vector<std::vector<row>> next(iterations, std::vector<row>(samples, row(directions * features)));
    for (std::size_t d = 0; d < directions; ++d)
      for (std::size_t n = 0; n < samples; ++n) {
        cell_state m{row(features), row(hidden)};
        const auto at = (l * directions + d) * samples + n;
        for (std::size_t j = 0; j < features && h0; ++j) m.h[j] = h0->values[at * features + j];
        for (std::size_t j = 0; j < hidden && c0; ++j) m.c[j] = c0->values[at * hidden + j];
        for (std::size_t k = 0; k < iterations; ++k) {
          auto t = d ? iterations - 1 - k : k;
          if (lengths && static_cast<double>(t) >= lengths->values[n]) continue;
          m = step(now[t][n], m, "_l" + std::to_string(l) + (d ? "_reverse" : ""));
          for (std::size_t j = 0; j < features; ++j) next[t][n][d * features + j] = m.h[j];
        }
        w.hn.values.insert(w.hn.values.end(), m.h.begin(), m.h.end());
        w.cn.values.insert(w.cn.values.end(), m.c.begin(), m.c.end());
      }
    now = next;
  }
  for (const auto& t : now)
    for (const auto& n : t) w.output.values.insert(w.output.values.end(), n.begin(), n.end());
  return w;
}
table parameters(std::int64_t gates, std::int64_t in, std::int64_t hidden, std::int64_t layers = 1,
                 std::int64_t directions = 1, bool peephole = false, std::int64_t projected = 0) {
  const std::int64_t features = projected ? projected : hidden;
  table p;
  int seed = 100;
  for (std::int64_t l = 0; l < layers; ++l)
    for (std::int64_t d = 0; d < directions; ++d) {
      auto s = "_l" + std::to_string(l) + (d ? "_reverse" : "");
      p["weight_ih" + s] = real({dim(gates * hidden), dim(l ? directions * features : in)}, ++seed);
      p["weight_hh" + s] = real({dim(gates * hidden), dim(features)}, ++seed);
      p["bias_ih" + s] = real({dim(gates * hidden)}, ++seed);
      p["bias_hh" + s] = real({dim(gates * hidden)}, ++seed);
      if (peephole) p["weight_p" + s] = real({dim(3 * hidden)}, ++seed);
      if (projected) p["weight_hr" + s] = real({dim(projected), dim(hidden)}, ++seed);
    }
  return p;
}
void check_close(const std::vector<double>& a, const std::vector<double>& b, std::string_view what) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  BOOST_CHECK_MESSAGE(worst < 1e-12, what << ": off by " << worst);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(recurrent_layers)

BOOST_AUTO_TEST_CASE(lstm_is_its_formula) {
  for (auto [t, n, i, h, layers, directions] : {std::array<std::int64_t, 6>{1, 1, 1, 1, 1, 1},
                                                {4, 2, 3, 5, 1, 1},
                                                {3, 1, 2, 17, 2, 1},
                                                {5, 3, 2, 4, 1, 2},
                                                {3, 2, 3, 3, 2, 2}})
    for (bool peephole : {false, true}) {
      auto p = parameters(4, i, h, layers, directions, peephole);
      array x = real({dim(t), dim(n), dim(i)}, 1), h0 = real({dim(layers * directions), dim(n), dim(h)}, 2),
            c0 = real(h0.shape(), 3);
      auto formula = [&](const row& r, const cell_state& m, const std::string& s) {
        return lstm_formula(p, r, m, s, peephole);
      };
      nn::lstm plain{.input_size = i,
                     .hidden_size = h,
                     .num_layers = layers,
                     .bidirectional = directions == 2,
                     .peephole = peephole};
      auto size = [](auto v) { return static_cast<std::size_t>(v); };
      check_close(outcomes(plain, {x}, p)[0].values,
                  walk(x, size(h), size(layers), size(directions), formula, nullptr, nullptr, nullptr).output.values,
                  "lstm");
      auto full = plain;
      full.states = true;
      auto r = outcomes(full, {x, h0, c0}, p);
      auto w = walk(x, size(h), size(layers), size(directions), formula, &h0, &c0, nullptr);
      check_close(r[0].values, w.output.values, "lstm with states");
      check_close(r[1].values, w.hn.values, "hn");
      check_close(r[2].values, w.cn.values, "cn");
      full.lengths = true;
      std::vector<double> l(size(n));
      for (std::size_t k = 0; k < l.size(); ++k)
        l[k] = static_cast<double>((static_cast<std::int64_t>(k) * 2 + 1) % (t + 1));
      auto counts = lengths_of(l);
      r = outcomes(full, {x, h0, c0, counts}, p);
      w = walk(x, size(h), size(layers), size(directions), formula, &h0, &c0, &counts);
      check_close(r[0].values, w.output.values, "lstm with lengths");
      check_close(r[1].values, w.hn.values, "hn with lengths");
      check_close(r[2].values, w.cn.values, "cn with lengths");
    }
}

BOOST_AUTO_TEST_CASE(lstm_with_projections_is_its_formula) {
  for (auto [t, n, i, h, layers, directions, projected] : {std::array<std::int64_t, 7>{1, 1, 1, 2, 1, 1, 1},
                                                           {4, 2, 3, 5, 1, 1, 3},
                                                           {3, 1, 2, 17, 2, 1, 4},
                                                           {3, 2, 3, 4, 2, 2, 2}}) {
    const auto p = parameters(4, i, h, layers, directions, false, projected);
    const array x = real({dim(t), dim(n), dim(i)}, 1), h0 = real({dim(layers * directions), dim(n), dim(projected)}, 2),
                c0 = real({dim(layers * directions), dim(n), dim(h)}, 3);
    const auto formula = [&](const row& r, const cell_state& m, const std::string& s) {
      return lstm_formula(p, r, m, s);
    };
    const auto size = [](auto v) { return static_cast<std::size_t>(v); };
    nn::lstm layer{.input_size = i,
                   .hidden_size = h,
                   .num_layers = layers,
                   .bidirectional = directions == 2,
                   .proj_size = projected};
    const auto y = outcomes(layer, {x}, p)[0];
    BOOST_TEST((y.shape() == shape{dim(t), dim(n), dim(directions * projected)}));
    const auto walk_from = [&](const array* first, const array* memory, const array* lengths) {
      return walk(x, size(h), size(layers), size(directions), formula, first, memory, lengths, size(projected));
    };
    check_close(y.values, walk_from(nullptr, nullptr, nullptr).output.values, "lstm with projections");
    layer.states = layer.lengths = true;
    std::vector<double> l(size(n));
    for (std::size_t k = 0; k < l.size(); ++k)
      l[k] = static_cast<double>((static_cast<std::int64_t>(k) * 2 + 1) % (t + 1));
    const auto counts = lengths_of(l);
    const auto r = outcomes(layer, {x, h0, c0, counts}, p);
    const auto w = walk_from(&h0, &c0, &counts);
    check_close(r[0].values, w.output.values, "projections with lengths");
    check_close(r[1].values, w.hn.values, "hn of projections");
    check_close(r[2].values, w.cn.values, "cn of projections");
    check_layer("lstm with projections", layer, {x, h0, c0, counts}, p);
  }
}

BOOST_AUTO_TEST_CASE(gru_is_its_formula_in_three_forms) {
  for (auto form : {nn::gru_form::reset_after, nn::gru_form::reset_before, nn::gru_form::reversed})
    for (auto [t, n, i, h, layers, directions] :
         {std::array<std::int64_t, 6>{1, 1, 1, 1, 1, 1}, {4, 2, 3, 5, 1, 1}, {3, 1, 2, 17, 2, 2}}) {
      auto p = parameters(3, i, h, layers, directions);
      array x = real({dim(t), dim(n), dim(i)}, 1), h0 = real({dim(layers * directions), dim(n), dim(h)}, 2);
      auto formula = [&](const row& r, const cell_state& m, const std::string& s) {
        return gru_formula(p, r, m, s, form);
      };
      nn::gru layer{.input_size = i,
                    .hidden_size = h,
                    .num_layers = layers,
                    .bidirectional = directions == 2,
                    .states = true,
                    .form = form};
      auto r = outcomes(layer, {x, h0}, p);
      auto w = walk(x, static_cast<std::size_t>(h), static_cast<std::size_t>(layers),
                    static_cast<std::size_t>(directions), formula, &h0, nullptr, nullptr);
      check_close(r[0].values, w.output.values, "gru");
      check_close(r[1].values, w.hn.values, "hn");
    }
}

BOOST_AUTO_TEST_CASE(rnn_is_its_formula) {
  auto p = parameters(1, 3, 4, 2);
  array x = real({4, 2, 3}, 1);
  auto w = walk(
      x, 4, 2, 1, [&](const row& r, const cell_state& m, const std::string& s) { return rnn_formula(p, r, m, s); },
      nullptr, nullptr, nullptr);
  nn::rnn layer{3, 4, 2};
  check_close(outcomes(layer, {x}, p)[0].values, w.output.values, "rnn");
  // batch_first: the same with the first two axes swapped
  array first{{dtype::float64, {2, 4, 3}}, std::vector<double>(24)};
  for (std::size_t t = 0; t < 4; ++t)
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t k = 0; k < 3; ++k) first.values[(n * 4 + t) * 3 + k] = x.values[(t * 2 + n) * 3 + k];
  layer.batch_first = true;
  auto y = outcomes(layer, {first}, p)[0];
  BOOST_TEST(y.shape().string() == "[2x4x4]");
  for (std::size_t t = 0; t < 4; ++t)
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t k = 0; k < 4; ++k)
        BOOST_CHECK_SMALL(y.values[(n * 4 + t) * 4 + k] - w.output.values[(t * 2 + n) * 4 + k], 1e-12);
}

BOOST_AUTO_TEST_CASE(cells_and_metanns_step_walked_by_recurrent) {
  auto p = parameters(4, 3, 4);
  table cell;
  for (const auto& [name, a] : p) cell[name.substr(0, name.size() - 3)] = a;
  array x = real({5, 2, 3}, 1), h0 = real({1, 2, 4}, 2), c0 = real({1, 2, 4}, 3);
  auto w = walk(
      x, 4, 1, 1, [&](const row& r, const cell_state& m, const std::string& s) { return lstm_formula(p, r, m, s); },
      &h0, &c0, nullptr);
  array h = h0, c = c0;
  h.type.dims = c.type.dims = {2, 4};
  nn::recurrent<nn::lstm_cell> layer{{3, 4}};
  auto r = outcomes(layer, {x, h, c}, cell);
  check_close(r[0].values, w.output.values, "recurrent lstm_cell");
  BOOST_TEST(r[1].shape().string() == "[5x2x4]");
  // along another axis
  nn::recurrent<nn::gru_step> second{.step = {3, 4}, .sequences = {nn::sequence_port{"input", 1}}, .output_axis = 1};
  table g;
  int seed = 7;
  for (std::string name : {"Wz", "Wr", "W"}) g[name] = real({3, 4}, ++seed);
  for (std::string name : {"Uz", "Ur", "U"}) g[name] = real({4, 4}, ++seed);
  array y = real({2, 5, 3}, 4);
  auto out = outcomes(second, {y, h}, g)[0];
  BOOST_TEST(out.shape().string() == "[2x5x4]");
  for (std::size_t n = 0; n < 2; ++n) {
    row state(h.values.begin() + static_cast<std::ptrdiff_t>(n * 4),
              h.values.begin() + static_cast<std::ptrdiff_t>(n * 4 + 4));
    for (std::size_t t = 0; t < 5; ++t) {
      auto by = [&](const std::string& name, const row& v) {
        row s(4);
        for (std::size_t i = 0; i < v.size(); ++i)
          for (std::size_t j = 0; j < 4; ++j) s[j] += v[i] * g[name].values[i * 4 + j];
        return s;
      };
      row in(y.values.begin() + static_cast<std::ptrdiff_t>((n * 5 + t) * 3),
             y.values.begin() + static_cast<std::ptrdiff_t>((n * 5 + t) * 3 + 3));
      row xz = by("Wz", in), xr = by("Wr", in), xn = by("W", in), hz = by("Uz", state), hr = by("Ur", state), next(4),
          reset(4);
      for (std::size_t j = 0; j < 4; ++j) reset[j] = state[j] * sigma(xr[j] + hr[j]);
      row hn = by("U", reset);
      for (std::size_t j = 0; j < 4; ++j) {
        double z = sigma(xz[j] + hz[j]), u = std::tanh(hn[j] + xn[j]);
        next[j] = u * z + state[j] * (1 - z);
        BOOST_CHECK_SMALL(out.values[(n * 5 + t) * 4 + j] - next[j], 1e-12);
      }
      state = next;
    }
  }
}

BOOST_AUTO_TEST_CASE(rnn_and_gru_cells_walked_along_axes_from_the_end) {
  array x = real({2, 5, 3}, 1), h = real({2, 4}, 2), in_turns{{dtype::float64, {5, 2, 3}}, std::vector<double>(30)},
        h0 = h;
  h0.type.dims = {1, 2, 4};
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t k = 0; k < 3; ++k) in_turns.values[(t * 2 + n) * 3 + k] = x.values[(n * 5 + t) * 3 + k];
  auto short_names = [](const table& p) {
    table cell;
    for (const auto& [name, a] : p) cell[name.substr(0, name.size() - 3)] = a;
    return cell;
  };
  auto agrees = [&](std::string_view name, const auto& cell, const table& p, const stepper& step) {
    auto w = walk(in_turns, 4, 1, 1, step, &h0, nullptr, nullptr);
    nn::recurrent<std::remove_cvref_t<decltype(cell)>> layer{
        .step = cell, .sequences = {nn::sequence_port{"input", -2}}, .output_axis = -2};
    auto out = outcomes(layer, {x, h}, short_names(p))[0];
    BOOST_REQUIRE(out.shape().string() == "[2x5x4]");
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t t = 0; t < 5; ++t)
        for (std::size_t k = 0; k < 4; ++k)
          BOOST_CHECK_MESSAGE(std::abs(out.values[(n * 5 + t) * 4 + k] - w.output.values[(t * 2 + n) * 4 + k]) < 1e-12,
                              name);
    check_layer(name, layer, {x, h}, short_names(p));
  };
  auto p = parameters(1, 3, 4), g = parameters(3, 3, 4);
  agrees("rnn_cell", nn::rnn_cell{3, 4}, p,
         [&](const row& r, const cell_state& m, const std::string& s) { return rnn_formula(p, r, m, s); });
  for (auto form : {nn::gru_form::reset_after, nn::gru_form::reset_before, nn::gru_form::reversed})
    agrees("gru_cell", nn::gru_cell{3, 4, true, form}, g,
           [&](const row& r, const cell_state& m, const std::string& s) { return gru_formula(g, r, m, s, form); });
  nn::recurrent<nn::gru_cell> plain{.step = {3, 4, false}, .output_axis = 7};
  table weights;
  for (const auto& [name, a] : short_names(g))
    if (name.starts_with("weight")) weights[name] = a;
  BOOST_TEST(message_of([&] {
               outcomes(plain, {in_turns, h}, weights);
             }).find("port `output` of shape [5x2x4] has no axis 7 to iterate over") != std::string::npos);
  plain.output_axis = 0;
  check_layer("gru_cell without biases", plain, {in_turns, h}, weights);
}

// A reversed layer equals the second direction of a bidirectional one.
BOOST_AUTO_TEST_CASE(reverse_is_the_second_direction) {
  const auto check = [](std::string_view name, auto layer, std::int64_t gates, std::size_t states) {
    const std::int64_t t = 4, n = 3, i = 2, h = 3;
    const table all = parameters(gates, i, h, 1, 2);
    table own;
    for (const auto& [key, a] : all)
      if (const auto at = key.find("_reverse"); at != key.npos) own[key.substr(0, at)] = a;
    layer.input_size = i, layer.hidden_size = h, layer.states = layer.lengths = true;
    auto both = layer;
    both.bidirectional = true, layer.reverse = true;
    const array x = real({dim(t), dim(n), dim(i)}, 1), counts = lengths_of({4, 1, 2});
    std::vector<array> operands{x}, of_both{x};
    for (std::size_t k = 0; k < states; ++k) {
      const array first = real({2, dim(n), dim(h)}, 2 + static_cast<int>(k));
      of_both.push_back(first);
      array second{{dtype::float64, {1, dim(n), dim(h)}}, {}};
      second.values.assign(first.values.begin() + n * h, first.values.end());
      operands.push_back(second);
    }
    operands.push_back(counts), of_both.push_back(counts);
    const auto r = outcomes(layer, operands, own), w = outcomes(both, of_both, all);
    std::vector<double> second;
    for (std::int64_t row = 0; row < t * n; ++row)
      second.insert(second.end(), w[0].values.begin() + (2 * row + 1) * h, w[0].values.begin() + (2 * row + 2) * h);
    check_close(r[0].values, second, name);
    for (std::size_t k = 1; k <= states; ++k)
      check_close(r[k].values, {w[k].values.begin() + n * h, w[k].values.end()}, name);
  };
  check("lstm", nn::lstm{}, 4, 2);
  check("gru", nn::gru{}, 3, 1);
  check("rnn", nn::rnn{}, 1, 1);
}

BOOST_AUTO_TEST_CASE(gradients_of_all_operands) {
  for (auto [t, n, i, h, layers, directions] : {std::array<std::int64_t, 6>{1, 1, 1, 1, 1, 1},
                                                {3, 2, 2, 3, 1, 1},
                                                {2, 1, 2, 2, 2, 1},
                                                {2, 3, 2, 2, 1, 2},
                                                {0, 2, 2, 3, 1, 1}}) {
    array x = real({dim(t), dim(n), dim(i)}, 1), h0 = real({dim(layers * directions), dim(n), dim(h)}, 2),
          c0 = real(h0.shape(), 3);
    bool both = directions == 2;
    check_layer(
        "lstm",
        nn::lstm{.input_size = i, .hidden_size = h, .num_layers = layers, .bidirectional = both, .states = true},
        {x, h0, c0}, parameters(4, i, h, layers, directions));
    check_layer("gru",
                nn::gru{.input_size = i, .hidden_size = h, .num_layers = layers, .bidirectional = both, .states = true},
                {x, h0}, parameters(3, i, h, layers, directions));
    check_layer("rnn", nn::rnn{.input_size = i, .hidden_size = h, .num_layers = layers, .bidirectional = both}, {x},
                parameters(1, i, h, layers, directions));
  }
  table g;
  int seed = 7;
  for (std::string name : {"Wz", "Wr", "W"}) g[name] = real({2, 3}, ++seed);
  for (std::string name : {"Uz", "Ur", "U"}) g[name] = real({3, 3}, ++seed);
  table l;
  for (const auto& [name, a] : parameters(4, 2, 3)) l[name.substr(0, name.size() - 3)] = a;
  for (auto [t, n] : {std::array<std::int64_t, 2>{3, 2}, {1, 1}, {2, 1}, {0, 2}, {4, 3}}) {
    array x = real({dim(t), dim(n), 2}, 1), h = real({dim(n), 3}, 2), c = real({dim(n), 3}, 3);
    std::vector<double> lengths;
    for (std::int64_t k = 0; k < n; ++k) lengths.push_back(static_cast<double>(std::min(t, k + 1)));
    check_layer("gru, reset before", nn::gru{.input_size = 2, .hidden_size = 3, .form = nn::gru_form::reset_before},
                {x}, parameters(3, 2, 3));
    check_layer("lstm from the end", nn::lstm{.input_size = 2, .hidden_size = 3, .reverse = true}, {x},
                parameters(4, 2, 3));
    check_layer("gru, reversed", nn::gru{.input_size = 2, .hidden_size = 3, .form = nn::gru_form::reversed}, {x},
                parameters(3, 2, 3));
    check_layer("lstm with peepholes", nn::lstm{.input_size = 2, .hidden_size = 3, .peephole = true}, {x},
                parameters(4, 2, 3, 1, 1, true));
    check_layer("lstm with lengths", nn::lstm{.input_size = 2, .hidden_size = 3, .lengths = true},
                {x, lengths_of(lengths)}, parameters(4, 2, 3));
    check_layer("recurrent gru_step", nn::recurrent<nn::gru_step>{{2, 3}}, {x, h}, g);
    check_layer("recurrent lstm_cell backwards", nn::recurrent<nn::lstm_cell>{.step = {2, 3}, .reverse = true},
                {x, h, c}, l);
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_single_steps) {
  for (auto [n, i, h] : {std::array<std::int64_t, 3>{2, 3, 4}, {1, 1, 1}, {0, 3, 2}, {3, 1, 5}, {1, 6, 2}}) {
    const array x = real({dim(n), dim(i)}, 1), state = real({dim(n), dim(h)}, 2), memory = real({dim(n), dim(h)}, 3);
    auto step = [](const table& p) {
      table one;
      for (const auto& [name, a] : p) one[name.substr(0, name.size() - 3)] = a;
      return one;
    };
    check_layer("rnn_cell", nn::rnn_cell{i, h}, {x, state}, step(parameters(1, i, h)));
    for (bool peephole : {false, true})
      check_layer("lstm_cell", nn::lstm_cell{i, h, true, peephole}, {x, state, memory},
                  step(parameters(4, i, h, 1, 1, peephole)));
    for (auto form : {nn::gru_form::reset_after, nn::gru_form::reset_before, nn::gru_form::reversed})
      check_layer("gru_cell", nn::gru_cell{i, h, true, form}, {x, state}, step(parameters(3, i, h)));
    table p;
    int seed = 7;
    for (std::string name : {"Wz", "Wr", "W"}) p[name] = real({dim(i), dim(h)}, ++seed);
    for (std::string name : {"Uz", "Ur", "U"}) p[name] = real({dim(h), dim(h)}, ++seed);
    check_layer("gru_step", nn::gru_step{i, h}, {x, state}, p);
  }
}

// A step whose port `input` is not a sequence.
struct scaled_step {
  static constexpr view<const label> inputs() { return port_names<"x", "input", "previous_output">; }
  constexpr auto forward(auto&, const auto& x, const auto& scale, const auto& h) const { return x + h * scale; }
};
constexpr nn::recurrent<scaled_step> scaled{.sequences = {nn::sequence_port{"x"}}};

BOOST_AUTO_TEST_CASE(only_the_sequences_that_are_named_are_walked) {
  infer_layer<constant_layer<scaled>> layer;
  tensor_of_rank<float, 3> x(2, 1, 2);
  for (auto& v : x.writable()) v = 1;
  const matrix<float> scale{{1, 2}}, h{{1, 1}};
  const auto y =
      evaluate(layer.forward(dict("x"_key = x, "input"_key = scale, "previous_output"_key = h))["output"_key]);
  BOOST_TEST(y.shape().string() == "[2x1x2]");
  const std::vector<float> wanted{2, 3, 3, 7};  // 1 + 1 * (1, 2), then 1 + that * (1, 2)
  for (std::size_t i = 0; i < wanted.size(); ++i) BOOST_TEST(y.data()[i] == wanted[i]);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(completeness)

BOOST_AUTO_TEST_CASE(every_recurrent_layer) {
  const auto all = layers("recurrent.cppm");
  BOOST_TEST(all.size() == 9u);
  for (const auto& name : all) {
    if (name == "sequence_port") continue;  // an option of layers, not a layer
    const auto lacks = lacking(noted::layer, name, {.second_order = false});
    BOOST_CHECK_MESSAGE(lacks.empty(), "layer " << name << ": lacks " << lacks);
  }
}

BOOST_AUTO_TEST_SUITE_END()
