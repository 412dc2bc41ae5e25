// Gradients of layers by all inputs and parameters, each over several shapes, including an extent of 0 and of 1; and
// that no layer is left out.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "elementwise_functions.h"

module lamina;

#include "graph.h"

#include "gradient_check.h"

#include "sources.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using values = std::vector<value>;

// Records the parameters that a layer requests, in order; afterwards returns their given values.
struct leaves {
  std::vector<std::pair<std::string, tensor_type>> asked;
  view<const value> given{};

  value operator()(program& p, const std::string& name, const tensor_type& type) {
    for (std::size_t i = 0; i < asked.size(); ++i)
      if (asked[i].first == name && i < given.size()) return given[i];
    asked.emplace_back(name, type);
    return p.input(name, type);
  }
};
class leaf_scope : public trace_scope {
 public:
  leaf_scope(trace_walk& walk, leaves& all) : trace_scope(walk), walk_(&walk), all_(&all) {}
  leaf_scope nested(const label& name) const {
    leaf_scope inner = *this;
    static_cast<trace_scope&>(inner) = trace_scope::nested(name);
    return inner;
  }
  template <Layer L, class... V> auto operator()(std::string_view name, const L& layer, const V&... in) const {
    return call(nested(label(name)), layer, in...);
  }
  value parameter(std::string_view name, const shape& dims, const initializer&) const {
    return leaf(name, {walk_->element, dims});
  }
  value state(std::string_view name, const shape& dims, double) const { return leaf(name, {walk_->element, dims}); }
  void assign(const value&, const value&) const {}
  value random_state() const { return leaf("generator", {dtype::int64, {2}}); }

 private:
  value leaf(std::string_view name, const tensor_type& type) const {
    std::string path;
    with_path([&](view<const label> at) {
      for (const auto& l : at) path += l.string() + ".";
    });
    return (*all_)(walk_->into, path += name, type);
  }
  trace_walk* walk_;
  leaves* all_;
};

// A type-erased layer: a function that runs it in a scope.
struct some_layer {
  std::string kind;
  std::size_t outputs;
  std::function<void(const leaf_scope&, view<const value>, view<value>)> run;
};
template <class L> some_layer of(const L& layer) {
  return {
      std::string(detail::layer_kind(layer)), detail::layer_outputs(layer).size(),
      [layer](leaf_scope scope, view<const value> in, view<value> out) { detail::run_layer(scope, layer, in, out); }};
}
template <class P, class L> some_layer under(const L& layer) {
  some_layer with = of(layer);
  with.run = [layer](const leaf_scope& plain, view<const value> in, view<value> out) {
    policy_scope<leaf_scope, P> scope(plain);
    detail::run_layer(scope, layer, in, out);
  };
  return with;
}

// How inputs are generated, and whether their extents are known.
struct manner {
  double low = -2, high = 2;
  bool distinct = false;  // all numbers distinct and nonzero
  bool training = false, also_float32 = true;
  extents_known open = extents_known::both_ways;
};
using cases = std::vector<std::vector<shape>>;

array made(const shape& s, int seed, const manner& m) {
  return m.distinct ? distinct_array(s, seed, seed % 2 ? 0 : 0.01)
                    : random_array(dtype::float64, s, seed, m.low, m.high);
}
array made_for(const std::string& name, const tensor_type& type, int seed) {
  if (type.element == dtype::int64) return array_of(dtype::int64, type.dims, {42, 7});
  return name.ends_with("running_var") ? random_array(dtype::float64, type.dims, seed, 0.5, 2)
                                       : random_array(dtype::float64, type.dims, seed, -1, 1);
}
values run(const some_layer& layer, leaves& all, const values& in, std::size_t inputs, dtype element, bool training) {
  parameter_store store;
  trace_walk walk{in[0].owner(), store, 0, element, training};
  values out(layer.outputs);
  layer.run(leaf_scope(walk, all), view<const value>(in.data(), inputs), view<value>(out));
  return out;
}
void check(const some_layer& layer, std::vector<array> in, const manner& m = {}) {
  const std::vector<array> given = in;
  leaves asked;
  program noting;
  values first;
  for (const auto& a : in) first.push_back(noting.input("x", a.type));
  first.push_back(noting.input("no port", {dtype::float64, {}}));  // so that a layer without inputs has a program too
  run(layer, asked, first, in.size(), dtype::float64, m.training);
  int seed = 50;
  for (const auto& [name, type] : asked.asked) in.push_back(made_for(name, type, seed++));
  const std::size_t inputs = given.size();
  const auto report = check_gradient(
      in,
      [&](const values& v) {
        leaves all = asked;
        all.given = view<const value>(v.data() + inputs, v.size() - inputs);
        dtype element = dtype::float64;
        for (const auto& x : v)
          if (is_floating(x.type().element)) element = x.type().element;
        return run(layer, all, v, inputs, element, m.training);
      },
      m.also_float32, m.open);
  std::string text = layer.kind;
  for (const auto& a : given) text += " " + a.shape().string();
  BOOST_CHECK_MESSAGE(report.worst < gradient_tolerance, text << ": error " << report.worst << ", " << report.where);
  note(noted::layer, layer.kind, given.empty() ? in : given, 1);
}
void over(const some_layer& layer, const cases& all, const manner& m = {}) {
  for (const auto& shapes : all) {
    std::vector<array> in;
    for (const auto& s : shapes) in.push_back(made(s, static_cast<int>(in.size()) + 1, m));
    check(layer, in, m);
  }
}

const cases any{{{}}, {{1}}, {{7}}, {{0}}, {{2, 3}}, {{3, 1, 4}}};
const cases pairs{{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 4}}, {{0, 3}, {3}}, {{1}, {1}}, {{}, {5}}};
const cases maps{{{2, 3, 4, 4}}, {{1, 3, 5, 4}}, {{0, 3, 4, 4}}, {{1, 3, 3, 6}}, {{3, 3, 4, 5}}};
const cases features{{{2, 3}}, {{1, 3}}, {{0, 3}}, {{2, 4, 3}}, {{5, 1, 3}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(layer_gradients)

BOOST_AUTO_TEST_CASE(elementwise_functions_of_one) {
  const auto check = [](const some_layer& layer, double low, double high) {
    over(layer, any, {.low = low, .high = high, .distinct = low == high});
  };
#define CHECK(name, low, high, gradient_low, gradient_high, ...) check(of(nn::name{}), gradient_low, gradient_high);
  EACH_ELEMENTWISE_FUNCTION(CHECK)
#undef CHECK
}

BOOST_AUTO_TEST_CASE(other_functions_of_one) {
  for (const auto& layer : {of(nn::negative{}), of(nn::dropout{0.4})}) over(layer, any);
  over(of(nn::dropout{0.4}), any, {.training = true, .also_float32 = false});  // float32 draws other random numbers
  for (const auto& layer : {of(nn::softmax{}), of(nn::log_softmax{}), of(nn::softmax{.axis = 0})})
    over(layer, {{{1}}, {{7}}, {{2, 3}}, {{3, 1, 4}}, {{0, 3}}});
  for (const auto& layer : {of(nn::clamp{.low = -0.03, .high = 0.03}), of(nn::prelu{})})
    over(layer, any, {.distinct = true});
  over(of(nn::prelu{3}), {{{2, 3}}, {{1, 3, 2}}, {{0, 3}}, {{2, 3, 1, 2}}, {{4, 3, 1}}}, {.distinct = true});
}

BOOST_AUTO_TEST_CASE(functions_of_two) {
  for (const auto& layer : {of(nn::add{}), of(nn::subtract{}), of(nn::multiply{}), of(nn::divide{}), of(nn::pow{})})
    over(layer, pairs, {.low = 0.5});
  for (const auto& layer : {of(nn::minimum{}), of(nn::maximum{})}) over(layer, pairs, {.distinct = true});
  over(of(nn::interpolate{}),
       {{{2, 3}, {2, 3}, {2, 3}}, {{2, 3}, {3}, {}}, {{2, 1}, {1, 4}, {2, 4}}, {{0, 3}, {3}, {1}}, {{1}, {1}, {1}}});
  over(of(nn::nll_loss{}), {{{2, 3}, {2, 3}}, {{1, 1}, {1, 1}}, {{0, 3}, {0, 3}}, {{5}, {5}}, {{2, 1, 3}, {2, 1, 3}}},
       {.low = 0.2, .high = 1});
  for (const auto& layer : {of(nn::mse_loss{}), of(nn::l1_loss{})})
    over(layer, {{{2, 3}, {2, 3}}, {{1, 1}, {1, 1}}, {{0, 3}, {0, 3}}, {{5}, {5}}, {{2, 1, 3}, {2, 1, 3}}});
  for (const auto& s : {shape{3, 4}, shape{0, 4}, shape{1, 1}, shape{5}, shape{2, 3, 4}}) {
    shape rows = s;
    --rows.rank;
    check(of(nn::cross_entropy_loss{}), {random_array(dtype::float64, s, 1),
                                         random_array(dtype::int64, rows, 2, 0, static_cast<double>(s.back().code))});
  }
  over(of(nn::dot{}),
       {{{2, 3}, {3, 4}}, {{1, 1}, {1, 1}}, {{0, 3}, {3, 2}}, {{2, 0}, {0, 3}}, {{2, 1, 2, 3}, {3, 3, 1}}});
}

BOOST_AUTO_TEST_CASE(products_and_tables) {
  for (const auto& layer :
       {of(nn::linear{3, 4}), of(nn::linear{3, 1, false}), of(nn::weight{3, 2}), of(nn::bias{{3}}),
        under<policies<activation(nn::tanh{})>>(nn::single_layer_perceptron{3, 2}), of(nn::residual{nn::linear{3, 3}})})
    over(layer, features);
  for (const auto& s : {shape{2, 3}, shape{}, shape{0}, shape{1}, shape{2, 1, 2}})
    for (const auto& layer : {of(nn::embedding{5, 4}), of(nn::embedding{5, 4, 2})})
      check(layer, {random_array(dtype::int64, s, 1, 0, 5)});
  for (const auto& s : {shape{2, 3}, shape{1}, shape{2, 1, 2}, shape{0, 2}})
    for (const auto mode : {nn::bag_mode::mean, nn::bag_mode::sum, nn::bag_mode::max})
      for (const std::int64_t padding : {-1, 2})
        check(of(nn::embedding_bag{5, 4, padding, mode}), {random_array(dtype::int64, s, 1, 0, 5)});
  for (const auto& s : {shape{2, 3}, shape{1}, shape{2, 1, 2}, shape{0, 2}})
    check(of(nn::embedding_bag{5, 4, 2, nn::bag_mode::sum, true}),
          {random_array(dtype::int64, s, 1, 0, 5), random_array(dtype::float64, s, 2, -1, 1)});
  for (const auto& s : {shape{2, 3}, shape{}, shape{0, 2}, shape{1}, shape{2, 1, 2}})
    check(of(nn::param_source{s}), {});
}

BOOST_AUTO_TEST_CASE(moved_and_reduced_elements) {
  over(of(nn::permute{axes(2, 0, 1)}), {{{2, 3, 4}}, {{1, 2, 3}}, {{0, 2, 3}}, {{2, 1, 1}}, {{3, 2, 5}}});
  over(of(nn::transpose{}), {{{2, 3}}, {{1, 4}}, {{0, 3}}, {{2, 3, 4}}, {{2, 1, 3, 2}}});
  over(of(nn::reshape{{dyn}}), any);
  over(of(nn::flatten{}), {{{2, 3}}, {{2, 3, 4}}, {{0, 3, 2}}, {{1, 1, 5}}, {{2, 2, 2, 2}}});
  over(of(nn::slice{.start = 1, .stop = 4, .axis = -1, .step = 2}), {{{5}}, {{1}}, {{2, 4}}, {{0, 4}}, {{2, 1, 6}}});
  over(of(nn::pad{.before = 1, .after = 2}), {{{3}}, {{1}}, {{2, 3}}, {{0, 2}}, {{2, 1, 2}}});
  over(of(nn::tile{{2, 3}}), {{{2, 3}}, {{1, 1}}, {{0, 2}}, {{2, 1}}, {{4, 2}}});
  over(of(nn::concat{1}),
       {{{2, 3}, {2, 1}}, {{1, 1}, {1, 1}}, {{0, 2}, {0, 3}}, {{2, 1, 2}, {2, 3, 2}}, {{3, 2}, {3, 0}}});
  for (const auto& layer : {of(nn::reduce_sum{axes(-1)}), of(nn::reduce_mean{axes(-1), true})})
    over(layer, {{{5}}, {{1}}, {{2, 3}}, {{0, 3}}, {{2, 1, 4}}});
  for (const auto& layer : {of(nn::reduce_max{axes(-1)}), of(nn::reduce_min{axes(-1), true})})
    over(layer, {{{5}}, {{1}}, {{2, 3}}, {{0, 3}}, {{2, 1, 4}}}, {.distinct = true});
}

BOOST_AUTO_TEST_CASE(chosen_elements) {
  // x, then positions below the extent
  const auto positions = [](const shape& s, std::int64_t below, int seed) {
    return random_array(dtype::int64, s, seed, 0, static_cast<double>(below));
  };
  const auto x = [](const shape& s, int seed) { return random_array(dtype::float64, s, seed, -1, 1); };
  struct looked_up {
    shape input, index;
    std::int64_t below;
  };
  for (const auto& [s, index, below] :
       {looked_up{{2, 3}, {4}, 3}, {{1, 1}, {1}, 1}, {{0, 3}, {2}, 3}, {{2, 3, 2}, {2, 2}, 3}, {{3, 2}, {0}, 2}})
    check(of(nn::gather{.axis = 1}), {x(s, 1), positions(index, below, 2)});
  for (const auto& [s, index, below] : {looked_up{{2, 3}, {2, 2}, 3},
                                        {{1, 1}, {1, 1}, 1},
                                        {{0, 3}, {0, 2}, 3},
                                        {{2, 1, 4}, {2, 1, 3}, 4},
                                        {{5}, {7}, 5}}) {
    check(of(nn::take_along_axis{}), {x(s, 1), positions(index, below, 2)});
    check(of(nn::scatter_add{}), {x(s, 1), positions(index, below, 2), x(index, 3)});
  }
  over(of(nn::select{.axis = 1, .index = -1}), {{{2, 3}}, {{1, 1}}, {{0, 2}}, {{2, 3, 2}}, {{4, 5}}});
  for (const auto& layer : {of(nn::cumsum{}), of(nn::cumsum{.axis = 0, .exclusive = true, .reverse = true})})
    over(layer, {{{5}}, {{1}}, {{2, 3}}, {{0, 3}}, {{2, 1, 4}}});
  over(of(nn::sort{.descending = true}), {{{5}}, {{1}}, {{2, 3}}, {{0, 3}}, {{2, 1, 4}}}, {.distinct = true});
  over(of(nn::top_k{.k = 1}), {{{5}}, {{1}}, {{2, 3}}, {{0, 3}}, {{2, 1, 4}}}, {.distinct = true});
  for (const auto& s : {shape{2, 3}, shape{}, shape{0, 2}, shape{1}, shape{2, 1, 2}}) {
    const auto some = random_array(dtype::int64, s, 9, 0, 2);
    array condition = array_of(dtype::boolean, s, some.values);
    check(of(nn::where{}), {condition, x(s, 1), x(s, 2)});
  }
  check(of(nn::where{}), {array_of(dtype::boolean, {2, 1}, {1, 0}), x({3}, 1), x({}, 2)});
  for (const auto& s : {shape{1, 2, 4}, shape{2, 1, 2}, shape{0, 2, 2}, shape{3, 4}, shape{1, 2}}) {
    shape t{s[s.rank - 2]};
    check(of(nn::rope{.base = 50}), {x(s, 1), positions(t, 9, 2)});
  }
  over(of(nn::cast{dtype::float64}), any, {.also_float32 = false});
}

BOOST_AUTO_TEST_CASE(axes_that_come_and_go) {
  over(of(nn::permute_inverse{axes(2, 0, 1)}), {{{2, 3, 4}}, {{1, 2, 3}}, {{0, 2, 3}}, {{2, 1, 1}}, {{3, 2, 5}}});
  over(of(nn::unsqueeze{axes(0)}), any);
  over(of(nn::squeeze{axes(1)}), {{{2, 1}}, {{1, 1}}, {{0, 1}}, {{2, 1, 3}}, {{4, 1, 1}}});
  over(of(nn::repeat{.count = 3, .axis = -1}), {{{5}}, {{1}}, {{2, 3}}, {{0, 3}}, {{2, 1, 4}}});
  over(of(nn::stack{.axis = 1}), {{{2, 3}, {2, 3}}, {{1}, {1}}, {{0, 3}, {0, 3}}, {{2, 1, 2}, {2, 1, 2}}, {{4}, {4}}});
  over(of(nn::split{.parts = 2, .axis = -1}), {{{4}}, {{1, 2}}, {{2, 4}}, {{0, 2}}, {{2, 1, 6}}});
  over(of(nn::reduce_prod{axes(-1)}), {{{5}}, {{1}}, {{2, 3}}, {{0, 3}}, {{2, 1, 4}}}, {.low = 0.5});
}

BOOST_AUTO_TEST_CASE(maps_and_sequences) {
  over(of(nn::conv2d{.in_channels = 3, .out_channels = 2, .kernel_size = {2, 3}, .stride = {1, 2}, .padding = 1}),
       maps);
  over(of(nn::conv2d{.in_channels = 4, .out_channels = 4, .kernel_size = 1, .groups = 2, .bias = false}),
       {{{1, 4, 1, 1}}, {{2, 4, 2, 3}}});
  over(of(nn::conv_transpose2d{.in_channels = 3, .out_channels = 2, .kernel_size = 2, .stride = 2}),
       {{{2, 3, 2, 2}}, {{1, 3, 1, 1}}, {{0, 3, 2, 2}}, {{1, 3, 3, 1}}, {{2, 3, 1, 2}}});
  over(of(nn::conv1d{.in_channels = 3, .out_channels = 2, .kernel_size = 2}),
       {{{2, 3, 4}}, {{1, 3, 2}}, {{0, 3, 3}}, {{3, 3, 5}}, {{1, 3, 7}}}, {.open = extents_known::when_built});
  over(of(nn::conv1d{.in_channels = 2, .out_channels = 2, .causal = true}), {{{1, 2, 1}}, {{2, 2, 4}}},
       {.open = extents_known::when_built});
  over(of(nn::max_pool2d{}), maps, {.distinct = true});
  for (const auto& layer :
       {of(nn::avg_pool2d{.kernel_size = 3, .stride = 1, .padding = 1}), of(nn::global_avg_pool2d{})})
    over(layer, maps);
}

BOOST_AUTO_TEST_CASE(normalized) {
  for (const auto& layer : {of(nn::layer_norm{{3}}), of(nn::layer_norm{.normalized_shape = {3}, .bias = false}),
                            of(nn::rms_norm{{3}}), of(nn::rms_norm{.normalized_shape = {3}, .affine = false})})
    over(layer, features);
  const cases channels{{{2, 4, 3}}, {{1, 4, 1}}, {{0, 4, 2}}, {{2, 4, 2, 2}}, {{3, 4, 5}}};
  for (const auto& layer : {of(nn::group_norm{.num_groups = 2, .num_channels = 4, .epsilon = 0.1}),
                            of(nn::instance_norm{.num_features = 4, .epsilon = 0.1, .affine = true}),
                            of(nn::instance_norm{.num_features = 4, .epsilon = 0.1})})
    over(layer, channels, {.open = extents_known::when_built});
  for (bool training : {false, true}) {
    const manner m{.training = training, .open = extents_known::when_built};
    over(of(nn::batch_norm1d{.num_features = 3, .epsilon = 0.1}),
         {{{2, 3}}, {{1, 3}}, {{0, 3}}, {{2, 3, 4}}, {{4, 3, 1}}}, m);
    over(of(nn::batch_norm1d{.num_features = 3, .epsilon = 0.1, .cumulative = true}), {{{2, 3}}, {{4, 3, 1}}}, m);
    for (bool affine : {true, false})
      over(of(nn::batch_norm2d{.num_features = 3, .epsilon = 0.1, .affine = affine}),
           {{{2, 3, 2, 2}}, {{1, 3, 3, 4}}, {{0, 3, 2, 2}}, {{3, 3, 1, 1}}, {{2, 3, 1, 4}}, {{2, 3, 0, 2}}}, m);
  }
}

BOOST_AUTO_TEST_CASE(attention_and_transformers) {
  const manner built{.open = extents_known::when_built};
  const cases sequences{{{1, 3, 4}}, {{2, 2, 4}}, {{2, 1, 4}}, {{0, 2, 4}}, {{1, 5, 4}}};
  for (const auto& layer :
       {of(nn::self_attention{.embed_dim = 4, .num_heads = 2}),
        of(nn::self_attention{.embed_dim = 4, .num_heads = 1, .bias = false, .causal = true}), of(nn::swiglu{4, 3}),
        of(nn::grouped_query_attention{.embed_dim = 4, .num_heads = 2, .base = 50}),
        of(nn::transformer_encoder_layer{
            .d_model = 4, .nhead = 2, .dim_feedforward = 3, .activation = nn::feedforward_activation::gelu}),
        of(nn::transformer_encoder_layer{.d_model = 4,
                                         .nhead = 2,
                                         .dim_feedforward = 3,
                                         .activation = nn::feedforward_activation::gelu,
                                         .norm_first = true})})
    over(layer, sequences, built);
  const cases two{{{1, 3, 4}, {1, 2, 4}},
                  {{2, 2, 4}, {2, 3, 4}},
                  {{2, 1, 4}, {2, 1, 4}},
                  {{0, 2, 4}, {0, 2, 4}},
                  {{1, 4, 4}, {1, 1, 4}}};
  over(of(nn::transformer_decoder_layer{
           .d_model = 4, .nhead = 2, .dim_feedforward = 3, .activation = nn::feedforward_activation::gelu}),
       two, built);
  cases three = two;
  for (auto& c : three) c.push_back(c[1]);
  over(of(nn::multi_head_attention{.embed_dim = 4, .num_heads = 2}), three, built);
  over(of(nn::multi_head_attention{.embed_dim = 4, .num_heads = 2, .weights = true}), three, built);
  over(of(nn::self_attention{.embed_dim = 4, .num_heads = 2, .causal = true, .weights = true}), sequences, built);
  over(of(nn::attention{}), three, built);
  over(of(nn::attention{.causal = true, .scale = 0.7}), three, built);
  for (auto& c : three) c.push_back({c[0][0], c[0][1], c[1][1]});
  over(of(nn::attention{.mask = true}), three, built);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(completeness)

// Layers over sequences are checked in recurrent_test.
BOOST_AUTO_TEST_CASE(every_layer) {
  const std::set<std::string, std::less<>> without_gradient{
      "value_source", "constant",    "one_hot",    "argmax",    "argsort",       "equal",
      "not_equal",    "less",        "less_equal", "greater",   "greater_equal", "logical_and",
      "logical_or",   "logical_not", "reduce_any", "reduce_all"},
      of_two{"add", "subtract", "multiply", "divide", "minimum", "maximum", "pow", "interpolate", "where"};
  const auto all = layers(), walked = layers("recurrent.cppm");
  BOOST_TEST(all.size() > 85u);
  for (const auto& name : all) {
    if (without_gradient.contains(name) || walked.contains(name)) continue;
    const auto lacks = lacking(noted::layer, name, {.second_order = false, .broadcast = of_two.contains(name)});
    BOOST_CHECK_MESSAGE(lacks.empty(), "layer " << name << ": lacks " << lacks);
  }
  for (const auto& name : without_gradient) BOOST_TEST(all.contains(name));
}

BOOST_AUTO_TEST_SUITE_END()
