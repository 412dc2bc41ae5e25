// Batches of `fit`: what shorter samples are filled up with, lengths as fields, fields by their names.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

template <class F> std::string said(F f) {
  try {
    f();
  } catch (const error& e) { return e.what(); }
  return {};
}

// Tokens of a sentence and a class of each; whole ones have all six, filled up by hand.
struct tagged {
  std::vector<std::int64_t> tokens, classes;
};
struct sentences {
  bool whole = false;
  std::int64_t size() const { return 24; }
  tagged operator[](std::int64_t i) const {
    tagged s;
    for (std::int64_t k = 0; k < (i % 2 ? 2 + i % 4 : 6); ++k) {
      s.tokens.push_back((i * 7 + k * 5) % 11 + 1);
      s.classes.push_back((i + k) % 3);
    }
    if (whole) s.tokens.resize(6), s.classes.resize(6, -100);
    return s;
  }
};
constexpr auto tagger = sequential(sublayer<"table">(nn::embedding{.num_embeddings = 12, .embedding_dim = 8}),
                                   sublayer<"head">(nn::linear{.in_features = 8, .out_features = 3}));
using tagger_model = model<tagger, port_input<"input", std::int64_t, "N", "T">>;
const auto by_token = [](const value& y, const value& t) { return loss::cross_entropy{.ignore_index = -100}(y, t); };

// Sounds of up to eight frames, and one or two numbers that are said in them.
struct sounds {
  bool whole = false;
  std::int64_t size() const { return 12; }
  std::pair<tensor<float, extents<dyn, 2>>, std::vector<std::int64_t>> operator[](std::int64_t i) const {
    auto x = tensor<float, extents<dyn, 2>>::uninitialized({whole ? 8 : 6 + i % 3, 2});
    auto to = x.writable();
    for (std::size_t k = 0; k < to.size(); ++k)
      to[k] = static_cast<float>((i * 5 + static_cast<std::int64_t>(k)) % 7) / 7;
    std::vector<std::int64_t> said{1 + i % 2};
    if (i % 3 == 0) said.push_back(3);
    return {x, said};
  }
};
constexpr auto listener =
    sequential(sublayer<"head">(nn::linear{.in_features = 2, .out_features = 4}), nn::log_softmax{});
using listener_model = model<listener, input<"N", "T", 2>>;

template <class Model, class Data, class Loss>
double fitted(Model& net, const Data& data, const Loss& loss, const fit_options& o = {.epochs = 2, .batch = 4}) {
  return fit(net, data, loss, optim::adam{.lr = 0.05}, o).epochs.back().loss;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batches_of_fit)

BOOST_AUTO_TEST_CASE(a_loss_says_what_targets_are_filled_up_with) {
  tagger_model by_hand({.seed = 1}), by_loss({.seed = 1}), by_option({.seed = 1});
  const loss::cross_entropy ignores{.ignore_index = -100};
  const auto expected = fitted(by_hand, sentences{true}, ignores);
  BOOST_TEST(fitted(by_loss, sentences{}, ignores) == expected);
  BOOST_TEST(same_bits(by_hand.parameters(), by_loss.parameters()));
  // A function says nothing.
  BOOST_TEST(said([&] {
               tagger_model net({.seed = 1});
               const auto first = fitted(net, sentences{}, by_token);
               BOOST_TEST(first != expected);
             }) == "");
  BOOST_TEST(fitted(by_option, sentences{}, by_token, {.epochs = 2, .batch = 4, .fill = {0, -100}}) == expected);
  BOOST_TEST(same_bits(by_hand.parameters(), by_option.parameters()));
  // An option comes before the loss: class 2 for padding counts.
  tagger_model other({.seed = 1});
  BOOST_TEST(fitted(other, sentences{}, ignores, {.epochs = 2, .batch = 4, .fill = {{}, 2}}) != expected);
  // The same in validation and in `evaluate`.
  BOOST_TEST(evaluate(by_loss, sentences{}, ignores, 4).loss == evaluate(by_hand, sentences{true}, ignores, 4).loss);
  fit_options validates{.epochs = 1, .batch = 4};
  validates.validation = sentences{};
  tagger_model a({.seed = 1}), b({.seed = 1});
  const auto of_short = fit(a, sentences{}, ignores, optim::sgd{}, validates);
  validates.validation = sentences{true};
  const auto of_whole = fit(b, sentences{true}, ignores, optim::sgd{}, validates);
  BOOST_TEST(*of_short.epochs[0].validation_loss == *of_whole.epochs[0].validation_loss);
}

BOOST_AUTO_TEST_CASE(targets_of_ctc_end_below_zero) {
  // The batch of one sample needs no padding.
  const auto loss_of = [](std::int64_t batch) {
    const listener_model net({.seed = 2});
    auto copy = net;
    return evaluate(copy, sounds{true}, loss::ctc{}, batch).loss;
  };
  BOOST_TEST(std::abs(loss_of(12) - loss_of(1)) < 1e-5);
  // With lengths of inputs and targets, frames that are padding count nothing, too.
  const auto with_lengths = [](bool whole, std::int64_t batch) {
    listener_model net({.seed = 2});
    return evaluate(net, sounds{whole} | dataset::with_lengths<0, 1>(), loss::ctc{}, batch).loss;
  };
  BOOST_TEST(std::abs(with_lengths(true, 12) - loss_of(12)) < 1e-5);
  BOOST_TEST(std::abs(with_lengths(false, 12) - with_lengths(false, 1)) < 1e-5);
  BOOST_TEST(std::abs(with_lengths(false, 12) - loss_of(12)) > 1e-2);
}

BOOST_AUTO_TEST_CASE(loaders_fill_up) {
  const auto rows = [](const sample_batch& b) {
    std::vector<std::int64_t> all;
    for (const std::size_t f : {0U, 1U})
      for (auto x : b.tensor(f).elements<std::int64_t>()) all.push_back(x);
    return all;
  };
  std::vector<std::int64_t> expected;
  for (const auto& b : dataset::batches(sentences{}, {.batch = 2, .fill = {7, -100}})) {
    expected = rows(b);
    break;
  }
  // The second sample has three tokens.
  BOOST_TEST((expected == std::vector<std::int64_t>{1, 6, 11, 5, 10, 4, 8, 2, 7, 7,    7,    7,  //
                                                    0, 1, 2,  0, 1,  2, 1, 2, 0, -100, -100, -100}));
  loader l(sentences{}, {.batch = 2, .fill = {7, -100}, .threads = 2});
  for (const auto& b : l.epoch()) {
    BOOST_TEST(rows(b) == expected, boost::test_tools::per_element());
    break;
  }
  // Along every axis, also by `sample_source::read`.
  const auto grids = dataset::map(sentences{}, [](const tagged&, std::int64_t i) {
    auto x = matrix<float>(1 + i % 2, 2 - i % 2);
    for (auto& e : x.writable()) e = 5;
    return x;
  });
  const std::optional<double> half[] = {0.5};
  const auto source = source_of(grids).filled_with(half);
  const std::int64_t two[] = {0, 1};
  std::array<float, 8> read{};
  void* const to[] = {read.data()};
  source.read(two, to);
  BOOST_TEST((read == std::array<float, 8>{5, 5, 0.5F, 0.5F, 5, 0.5F, 5, 0.5F}));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_filled_up_is_said) {
  const auto bytes = dataset::map(sentences{}, [](const tagged& s) {
    return std::pair(s.tokens, std::vector<std::uint8_t>(s.classes.begin(), s.classes.end()));
  });
  tagger_model net;
  BOOST_TEST(said([&] { fitted(net, bytes, loss::cross_entropy{.ignore_index = -100}); }) ==
             "data set: field 1 is uint8, and shorter samples of it are filled up with -100; expected a number of that "
             "type, or the field in another one");
  BOOST_TEST(said([&] { loader l(sentences{}, {.fill = {0, 0.5}}); }) ==
             "data set: field 1 is int64, and shorter samples of it are filled up with 0.5; expected a number of that "
             "type, or the field in another one");
  BOOST_TEST(said([&] { dataset::batches(sentences{}, {.fill = {0, 0, 0}}); }) ==
             "data set: `fill` has 3 numbers, and a sample has 2 fields");
}

namespace {
// x + 2 offset of two numbers each; the fields of a sample are not in the order of the inputs, `x` and `offset`.
constexpr auto shifted =
    topology(sublayer<"line">(nn::linear{.in_features = 2, .out_features = 2}), sublayer<"sum">(nn::add{}),
             connect<"x", "line.input">, connect<"line.output", "sum.lhs">, connect<"offset", "sum.rhs">,
             connect<"sum.output", "output">);
using shifted_model = model<shifted, port_input<"x", float, "N", 2>, port_input<"offset", float, "N", 2>>;
using pair_of_numbers = std::array<float, 2>;
struct in_order {
  pair_of_numbers x, offset, sum;
};
struct mixed_up {
  pair_of_numbers sum, offset, x;
};
struct partly_named {
  pair_of_numbers offset, other, sum;
};
struct in_place {
  pair_of_numbers x, other, sum;
};
template <class Sample> struct sums {
  std::int64_t size() const { return 40; }
  Sample operator[](std::int64_t i) const {
    const auto a = static_cast<float>(i % 7), b = static_cast<float>(i % 5);
    const pair_of_numbers x{a, b}, offset{b - 2, 1 - a}, sum{2 * a + b - 2, b + 1 - a};
    if constexpr (requires(Sample s) { s.x, s.offset; }) {
      Sample s;
      s.x = x, s.offset = offset, s.sum = sum;
      return s;
    } else if constexpr (requires(Sample s) { s.offset; }) return {offset, x, sum};
    else return {x, offset, sum};
  }
};
struct with_bits {
  float a;
  unsigned b : 3;
};
}  // namespace

BOOST_AUTO_TEST_CASE(fields_have_names) {
  const auto names = [](const auto& data) {
    std::string all;
    const auto source = source_of(data);
    for (const auto& n : source.names()) all += n + ",";
    return all;
  };
  BOOST_TEST(names(sums<mixed_up>{}) == "sum,offset,x,");
  BOOST_TEST(names(sentences{}) == "tokens,classes,");
  BOOST_TEST(names(sounds{}) == ",,");
  BOOST_TEST(names(sounds{} | dataset::named({"x", "said"}) | dataset::with_lengths<0, 1>()) ==
             "x,said,x_length,said_length,");
  BOOST_TEST(names(dataset::zip(sentences{}, sentences{})) == "tokens,classes,,,");
  BOOST_TEST(names(dataset::split(sums<in_order>{}, 0.5, 1).first | dataset::cache()) == "x,offset,sum,");
  BOOST_TEST(names(std::vector<with_bits>(1)) == ",,");  // a bit-field has no address
  struct local {
    float height = 0;
    std::int64_t class_of_it = 0;
  };
  BOOST_TEST(names(std::vector<local>(1)) == "height,class_of_it,");
  BOOST_TEST(names(datasets::csv_text("size,sort,other\n1,a,2\n", "file", {.targets = {"sort"}})) == ",sort,");
  const matrix<float> x(3, 2);
  BOOST_TEST(names(tensor_rows({any_tensor(x), any_tensor(x)}, {"a", "b"})) == "a,b,");
}

BOOST_AUTO_TEST_CASE(fields_are_bound_by_their_names) {
  const auto trained = [](const auto& data) {
    shifted_model net({.seed = 4});
    fit(net, data, loss::mse{}, optim::adam{.lr = 0.05}, {.epochs = 3, .batch = 8, .validation = data});
    return net;
  };
  auto expected = trained(sums<in_order>{});
  auto named = trained(sums<mixed_up>{});
  BOOST_TEST(same_bits(expected.parameters(), named.parameters()));
  BOOST_TEST(evaluate(named, sums<mixed_up>{}, loss::mse{}).loss ==
             evaluate(expected, sums<in_order>{}, loss::mse{}).loss);
  BOOST_TEST(evaluate(named, sums<mixed_up>{}, metric::rmse{})[0].value ==
             evaluate(expected, sums<in_order>{}, metric::rmse{})[0].value);
  const auto a = predict(named, sums<mixed_up>{})[0], b = predict(expected, sums<in_order>{})[0];
  BOOST_TEST(std::memcmp(a.data(), b.data(), a.bytes()) == 0);
  // Tuples have the names that they are given; without names the order counts.
  const auto tuples = dataset::map(
      sums<in_order>{}, [](const pair_of_numbers& x, const pair_of_numbers& offset, const pair_of_numbers& sum) {
        return std::tuple(offset, sum, std::int64_t(1), x);
      });
  const auto chosen =
      tuples | dataset::named({"offset", "sum", "weight", "x"}) | dataset::fields({"sum", "offset", "x"});
  BOOST_TEST(same_bits(expected.parameters(), trained(chosen).parameters()));
  // Rows of tensors are read as a whole.
  matrix<float> x(40, 2), offset(40, 2), sum(40, 2);
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::size_t k = 0; k < 2; ++k) {
      const auto s = sums<in_order>{}[i];
      const auto at = static_cast<std::size_t>(2 * i) + k;
      x.writable()[at] = s.x[k], offset.writable()[at] = s.offset[k], sum.writable()[at] = s.sum[k];
    }
  const tensor_rows rows({any_tensor(sum), any_tensor(x), any_tensor(offset)}, {"sum", "x", "offset"});
  BOOST_TEST(same_bits(expected.parameters(), trained(rows).parameters()));
  const auto in_place_by_order = trained(sums<in_place>{});
  BOOST_TEST(same_bits(expected.parameters(), in_place_by_order.parameters()));
}

BOOST_AUTO_TEST_CASE(names_that_do_not_fit_are_refused) {
  shifted_model net;
  const auto fitted_with = [&](const auto& data) {
    return said([&] { fit(net, data, loss::mse{}, optim::sgd{}, {.batch = 8}); });
  };
  const std::string why =
      "fit: input `offset` of the model is input 1, and the field of that name is field 0 of the training data, which "
      "has no field `x`; expected a field for the name of each input, or the fields in the order of the inputs: "
      "`dataset::named` gives names";
  BOOST_TEST(fitted_with(sums<partly_named>{}) == why);
  BOOST_TEST(said([&] { predict(net, sums<partly_named>{}); }).starts_with("evaluate: input `offset` of the model"));
  BOOST_TEST(fitted_with(sums<in_order>{} | dataset::named({"x", "offset"})) ==
             "data set: 2 names, and a sample has 3 fields");
  BOOST_TEST(fitted_with(sums<in_order>{} | dataset::named({"x", "x", "sum"})) == "data set: two fields are named `x`");
  BOOST_TEST(said([&] { dataset::fields(sums<in_order>{}, {"x", "ofset"}); }) ==
             "data set: no field is named `ofset`; there are `x`, `offset`, `sum`; did you mean `offset`?");
  BOOST_TEST(said([&] { dataset::fields(sounds{}, {"x"}); }) ==
             "data set: no field is named `x`: fields have no names; `dataset::named` gives some");
  BOOST_TEST(said([&] { dataset::fields(sums<in_order>{}, {"x", "x"}); }) == "data set: field 0 is chosen twice");
}

BOOST_AUTO_TEST_SUITE_END()
