// Composite layers as nets use them: residual blocks, fan-outs, shared weights, nesting; against formulas in double,
// and their gradients against differences.
module;
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

#include "gradient_check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using values = std::vector<value>;
using table = std::map<std::string, array>;

// ---- a layer over inputs and given parameters, all as inputs of one program -----------------------------------------

struct given_parameters {
  std::map<std::string, value> all;
  const name_map* names = nullptr;
};
class given_scope : public trace_scope {
 public:
  given_scope(const trace_scope& s, const given_parameters& given) : trace_scope(s), given_(&given) {}
  given_scope nested(const label& name) const { return {trace_scope::nested(name), *given_}; }
  template <Layer L, class... V> auto operator()(std::string_view name, const L& layer, const V&... in) const {
    return call(nested(label(name)), layer, in...);
  }
  value parameter(std::string_view name, const shape& dims, const initializer&) const {
    std::string path;
    with_path([&](view<const label> at) {
      for (const auto& l : at) path += l.string() + ".";
    });
    path += name;
    if (given_->names) path = (*given_->names)(path);
    const auto found = given_->all.find(path);
    if (found == given_->all.end()) throw std::runtime_error("no parameter " + path);
    BOOST_TEST(fits(found->second.shape(), dims));
    return found->second;
  }

 private:
  const given_parameters* given_;
};

struct composite {
  std::vector<array> in;  // inputs, then parameters
  std::vector<std::string> names;
  builder build;
};
template <class L> composite with_parameters(const L& layer, std::vector<array> in, const table& parameters,
                                             const name_map* map = nullptr) {
  composite c{std::move(in), {}, {}};
  const auto inputs = c.in.size();
  for (const auto& [name, a] : parameters) {
    c.names.push_back(name);
    c.in.push_back(a);
  }
  c.build = [&layer, inputs, names = c.names, map](const values& v) {
    given_parameters given{{}, map};
    for (std::size_t i = 0; i < names.size(); ++i) given.all.emplace(names[i], v[inputs + i]);
    parameter_store store;
    trace_walk walk{v[0].owner(), store, 0, v[0].type().element};
    given_scope scope(trace_scope(walk), given);
    values out(detail::layer_outputs(layer).size());
    detail::run_layer(scope, layer, view<const value>(v.data(), inputs), view<value>(out));
    return out;
  };
  return c;
}
// Compares the layer with the formula, and its gradients with differences.
void check(std::string_view name, const composite& c, const std::vector<std::vector<double>>& expected) {
  const auto found = results_of(c.in, c.build);
  BOOST_REQUIRE_EQUAL(found.size(), expected.size());
  for (std::size_t o = 0; o < expected.size(); ++o) {
    BOOST_REQUIRE_EQUAL(found[o].values.size(), expected[o].size());
    for (std::size_t i = 0; i < expected[o].size(); ++i)
      BOOST_CHECK_MESSAGE(std::abs(found[o].values[i] - expected[o][i]) < 1e-12,
                          name << ": " << found[o].values[i] << " for " << expected[o][i] << " at " << i);
  }
  const auto report = check_gradient(c.in, c.build);
  BOOST_CHECK_MESSAGE(report.worst < gradient_tolerance, name << ": error " << report.worst << ", " << report.where);
}

array real(const shape& s, int seed) { return random_array(dtype::float64, s, seed, -0.8, 0.8); }

// ---- formulas over rows ---------------------------------------------------------------------------------------------

using row = std::vector<double>;
row row_of(const array& x, std::size_t n, std::size_t width) {
  return {x.values.begin() + static_cast<std::ptrdiff_t>(n * width),
          x.values.begin() + static_cast<std::ptrdiff_t>((n + 1) * width)};
}
row affine(const table& p, const std::string& name, const row& x) {
  const auto &w = p.at(name + ".weight").values, &b = p.at(name + ".bias").values;
  row y = b;
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  return y;
}
row tanh_of(row x) {
  for (auto& v : x) v = std::tanh(v);
  return x;
}
row sum(row a, const row& b, double sign = 1) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += sign * b[i];
  return a;
}
// The formula on each row of x.
std::vector<double> by_rows(const array& x, std::size_t width, const std::function<row(std::size_t, const row&)>& f) {
  std::vector<double> all;
  for (std::size_t n = 0; n * width < x.values.size(); ++n) {
    const row y = f(n, row_of(x, n, width));
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}
table linear_parameters(const std::vector<std::pair<std::string, shape>>& layers) {
  table p;
  int seed = 10;
  for (const auto& [name, dims] : layers) {
    p[name + ".weight"] = real(dims, ++seed);
    p[name + ".bias"] = real({dims[0]}, ++seed);
  }
  return p;
}

// ---- the nets -------------------------------------------------------------------------------------------------------

constexpr auto bottleneck = sequential(sublayer<"down">(nn::linear{.in_features = 4, .out_features = 3}), nn::tanh{},
                                       sublayer<"up">(nn::linear{.in_features = 3, .out_features = 4}));
// A residual block by connections, by code, and by `nn::residual`.
constexpr auto block_by_connections =
    topology(connect<"input", "body.input">, connect<"input", "sum.rhs">, connect<"body.output", "sum.lhs">,
             connect<"sum.output", "output">, sublayer<"sum">(nn::add{}), sublayer<"body">(bottleneck));
struct block_parts {
  nn::linear down, up;
  constexpr auto forward(auto& s, const auto& x) const { return s("up", up, tanh(s("down", down, x))); }
};
struct block_by_code {
  block_parts body;
  constexpr auto forward(auto& s, const auto& x) const { return s("body", body, x) + x; }
};

// Three parallel branches of one input.
struct concatenated {
  static constexpr view<const label> inputs() { return port_names<"first", "second", "third">; }
  constexpr auto forward(auto&, const auto& a, const auto& b, const auto& c) const { return concat<1>(a, b, c); }
};
constexpr auto inception = topology(
    sublayer<"wide">(nn::linear{.in_features = 4, .out_features = 3}),
    sublayer<"narrow">(nn::linear{.in_features = 4, .out_features = 1}), sublayer<"deep">(bottleneck),
    sublayer<"join">(concatenated{}), connect<"input", "wide.input">, connect<"input", "narrow.input">,
    connect<"input", "deep.input">, connect<"wide.output", "join.first">, connect<"narrow.output", "join.second">,
    connect<"deep.output", "join.third">, connect<"join.output", "output">);

// Two inputs through the same parameters: by code, and by two sublayers with a shared name.
struct siamese_by_code {
  nn::linear encoder;
  static constexpr view<const label> inputs() { return port_names<"left", "right">; }
  constexpr auto forward(auto& s, const auto& left, const auto& right) const {
    return tanh(s("encoder", encoder, left)) - tanh(s("encoder", encoder, right));
  }
};
constexpr auto siamese_by_names =
    topology(sublayer<"left">(nn::linear{.in_features = 4, .out_features = 3}),
             sublayer<"right">(nn::linear{.in_features = 4, .out_features = 3}), sublayer<"l">(nn::tanh{}),
             sublayer<"r">(nn::tanh{}), sublayer<"difference">(nn::subtract{}), connect<"a", "left.input">,
             connect<"b", "right.input">, connect<"left.output", "l.input">, connect<"right.output", "r.input">,
             connect<"l.output", "difference.lhs">, connect<"r.output", "difference.rhs">,
             connect<"difference.output", "output">);

static_assert(ValidTopology<siamese_by_names>);

// Nested composites with two outputs, with clauses in one order and in reverse.
constexpr auto inner = topology(sublayer<"a">(nn::linear{.in_features = 4, .out_features = 2}),
                                sublayer<"act">(nn::tanh{}), connect<"x", "a.input">, connect<"a.output", "act.input">,
                                connect<"a.output", "before">, connect<"act.output", "after">);
constexpr auto outer =
    topology(sublayer<"both">(inner), sublayer<"product">(nn::multiply{}),
             sublayer<"tail">(nn::linear{.in_features = 2, .out_features = 3}), connect<"x", "both.x">,
             connect<"both.before", "product.lhs">, connect<"both.after", "product.rhs">,
             connect<"product.output", "tail.input">, connect<"tail.output", "y">, connect<"both.after", "z">);
constexpr auto outer_reversed = topology(
    connect<"tail.output", "y">, connect<"both.after", "z">, connect<"product.output", "tail.input">,
    connect<"both.after", "product.rhs">, connect<"both.before", "product.lhs">, connect<"x", "both.x">,
    sublayer<"tail">(nn::linear{.in_features = 2, .out_features = 3}), sublayer<"product">(nn::multiply{}),
    sublayer<"both">(topology(connect<"a.output", "before">, connect<"act.output", "after">,
                              connect<"a.output", "act.input">, connect<"x", "a.input">, sublayer<"act">(nn::tanh{}),
                              sublayer<"a">(nn::linear{.in_features = 4, .out_features = 2}))));
static_assert(output_types_of<outer, input<"N", 4>>[1].dims == shape{"N", 2});
static_assert(output_types_of<outer_reversed, input<"N", 4>> == output_types_of<outer, input<"N", 4>>);
static_assert(output_type_of<inception, input<"N", 4>>.dims == shape{"N", 8});

// A layer with run-time options; it builds its sublayers from them.
struct hidden_by_code {
  std::int64_t features = 1, width = 1;
  constexpr auto forward(auto& s, const auto& x) const {
    return s("body",
             sequential(sublayer<"down">(nn::linear{features, width}), nn::tanh{},
                        sublayer<"up">(nn::linear{width, features})),
             x);
  }
};
// The same with connections.
struct shifted_by_code {
  std::int64_t features = 1;
  constexpr auto forward(auto& s, const auto& x) const {
    return s(
        "body",
        topology(sublayer<"up">(nn::linear{features, features}), sublayer<"sum">(nn::add{}), connect<"x", "up.input">,
                 connect<"up.output", "sum.lhs">, connect<"x", "sum.rhs">, connect<"sum.output", "y">),
        x);
  }
};
// Invalid connections in a layer that chooses them at run time.
struct unconnected_by_code {
  std::int64_t features = 1;
  constexpr auto forward(auto& s, const auto& x) const {
    return s(
        "body",
        topology(sublayer<"up">(nn::linear{features, features}), connect<"x", "up.input">, connect<"up.results", "y">),
        x);
  }
};
constexpr auto made_by_code = sequential(sublayer<"block">(hidden_by_code{4, 3}), sublayer<"head">(nn::linear{4, 2}));
constexpr auto mismatch_by_code = sequential(sublayer<"block">(hidden_by_code{5, 3}));

const array x = real({5, 4}, 1), other = real({5, 4}, 2);

}  // namespace

BOOST_AUTO_TEST_SUITE(composites)

BOOST_AUTO_TEST_CASE(a_residual_block_in_three_spellings) {
  const auto p = linear_parameters({{"body.down", {3, 4}}, {"body.up", {4, 3}}});
  const auto formula = by_rows(x, 4, [&](std::size_t, const row& r) {
    return sum(affine(p, "body.up", tanh_of(affine(p, "body.down", r))), r);
  });
  check("connections", with_parameters(block_by_connections, {x}, p), {formula});
  constexpr nn::residual<std::remove_const_t<decltype(bottleneck)>> ready{bottleneck};
  check("residual", with_parameters(ready, {x}, p), {formula});
  constexpr block_by_code code{{{4, 3}, {3, 4}}};
  check("code", with_parameters(code, {x}, p), {formula});
}

BOOST_AUTO_TEST_CASE(branches_of_one_input_side_by_side) {
  const auto p = linear_parameters({{"wide", {3, 4}}, {"narrow", {1, 4}}, {"deep.down", {3, 4}}, {"deep.up", {4, 3}}});
  const auto formula = by_rows(x, 4, [&](std::size_t, const row& r) {
    row all = affine(p, "wide", r);
    for (const auto& part : {affine(p, "narrow", r), affine(p, "deep.up", tanh_of(affine(p, "deep.down", r)))})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  });
  check("inception", with_parameters(inception, {x}, p), {formula});
}

BOOST_AUTO_TEST_CASE(two_inputs_through_the_same_weights) {
  const auto p = linear_parameters({{"encoder", {3, 4}}});
  const auto formula = by_rows(x, 4, [&](std::size_t n, const row& r) {
    return sum(tanh_of(affine(p, "encoder", r)), tanh_of(affine(p, "encoder", row_of(other, n, 4))), -1);
  });
  constexpr siamese_by_code code{{.in_features = 4, .out_features = 3}};
  check("code", with_parameters(code, {x, other}, p), {formula});
  name_map tie;
  tie.add("left", "encoder").add("right", "encoder");
  check("names", with_parameters(siamese_by_names, {x, other}, p, &tie), {formula});
}

BOOST_AUTO_TEST_CASE(topologies_made_when_a_layer_runs) {
  const auto p = linear_parameters({{"body.down", {3, 4}}, {"body.up", {4, 3}}});
  const auto formula = by_rows(
      x, 4, [&](std::size_t, const row& r) { return affine(p, "body.up", tanh_of(affine(p, "body.down", r))); });
  std::int64_t width = 3;
  check("chain", with_parameters(hidden_by_code{4, width}, {x}, p), {formula});
  const auto q = linear_parameters({{"body.up", {4, 4}}});
  check("connections", with_parameters(shifted_by_code{width + 1}, {x}, q),
        {by_rows(x, 4, [&](std::size_t, const row& r) { return sum(affine(q, "body.up", r), r); })});
  static_assert(output_type_of<made_by_code, input<"N", 4>>.dims == shape{"N", 2});
  static_assert(no_error<shape_check<made_by_code, input<"N", 4>>>);
  static_assert(!no_error<shape_check<mismatch_by_code, input<"N", 4>>>);
  std::string why;
  const unconnected_by_code unconnected{4};
  const composite wrong = with_parameters(unconnected, {x}, q);
  try {
    results_of(wrong.in, wrong.build);
  } catch (const shape_error& e) { why = e.what(); }
  BOOST_TEST(why.find("sublayer `up` (linear) has no output port `results`") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(composites_in_composites_in_any_order_of_clauses) {
  const auto p = linear_parameters({{"both.a", {2, 4}}, {"tail", {3, 2}}});
  const auto after = by_rows(x, 4, [&](std::size_t, const row& r) { return tanh_of(affine(p, "both.a", r)); });
  const auto y = by_rows(x, 4, [&](std::size_t, const row& r) {
    row before = affine(p, "both.a", r);
    const row act = tanh_of(before);
    for (std::size_t i = 0; i < before.size(); ++i) before[i] *= act[i];
    return affine(p, "tail", before);
  });
  check("in one order", with_parameters(outer, {x}, p), {y, after});
  check("in another", with_parameters(outer_reversed, {x}, p), {y, after});
}

BOOST_AUTO_TEST_SUITE_END()
