// Batches of `fit`: padding of shorter samples, lengths as fields, fields by name, changes of whole batches, buckets.
#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"
#include "thread_replicas.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;
using namespace replicas_test;

namespace {

template <class F> std::string message(F f) {
  try {
    f();
  } catch (const error& e) { return e.what(); }
  return {};
}

// Tokens of a sentence with a class for each; `whole` ones are padded to six by hand.
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

// Sounds of up to eight frames, with one or two numbers said in them.
struct sounds {
  bool whole = false;
  std::int64_t size() const { return 12; }
  std::pair<tensor<float, extents<dyn, 2>>, std::vector<std::int64_t>> operator[](std::int64_t i) const {
    auto x = tensor<float, extents<dyn, 2>>::uninitialized({whole ? 8 : 6 + i % 3, 2});
    auto to = x.writable();
    for (std::size_t k = 0; k < to.size(); ++k)
      to[k] = static_cast<float>((i * 5 + static_cast<std::int64_t>(k)) % 7) / 7;
    std::vector<std::int64_t> message{1 + i % 2};
    if (i % 3 == 0) message.push_back(3);
    return {x, message};
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
  // A plain function does not define padding.
  BOOST_TEST(message([&] {
               tagger_model net({.seed = 1});
               const auto first = fitted(net, sentences{}, by_token);
               BOOST_TEST(first != expected);
             }) == "");
  tagger_model by_function({.seed = 1});
  BOOST_TEST(fitted(by_option, sentences{}, by_token, {.epochs = 2, .batch = 4, .fill = {0, -100}}) ==
             fitted(by_function, sentences{true}, by_token));
  BOOST_TEST(same_bits(by_function.parameters(), by_option.parameters()));
  // The option overrides the loss: padding with class 2 counts.
  tagger_model other({.seed = 1});
  BOOST_TEST(fitted(other, sentences{}, ignores, {.epochs = 2, .batch = 4, .fill = {{}, 2}}) != expected);
  // Validation and `evaluate` pad the same way.
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
  // A batch of one sample needs no padding.
  const auto loss_of = [](std::int64_t batch) {
    const listener_model net({.seed = 2});
    auto copy = net;
    return evaluate(copy, sounds{true}, loss::ctc{}, batch).loss;
  };
  BOOST_TEST(std::abs(loss_of(12) - loss_of(1)) < 1e-5);
  // With lengths of inputs and targets, padded frames are ignored, too.
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
  // Along every axis, also in `sample_source::read`.
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
  BOOST_TEST(message([&] { fitted(net, bytes, loss::cross_entropy{.ignore_index = -100}); }) ==
             "data set: field 1 is uint8, but its shorter samples are padded with -100; expected a number of that "
             "type, or a field of another type");
  BOOST_TEST(message([&] { loader l(sentences{}, {.fill = {0, 0.5}}); }) ==
             "data set: field 1 is int64, but its shorter samples are padded with 0.5; expected a number of that "
             "type, or a field of another type");
  BOOST_TEST(message([&] { dataset::batches(sentences{}, {.fill = {0, 0, 0}}); }) ==
             "data set: `fill` has 3 numbers; expected at most 2, one for each field of a sample");
}

namespace {
// x + 2 offset for two numbers each; a sample's fields are not in the order of the inputs `x` and `offset`.
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
  // Tuples have the given names; without names the order applies.
  const auto tuples = dataset::map(
      sums<in_order>{}, [](const pair_of_numbers& x, const pair_of_numbers& offset, const pair_of_numbers& sum) {
        return std::tuple(offset, sum, std::int64_t(1), x);
      });
  const auto chosen =
      tuples | dataset::named({"offset", "sum", "weight", "x"}) | dataset::fields({"sum", "offset", "x"});
  BOOST_TEST(same_bits(expected.parameters(), trained(chosen).parameters()));
  // Rows of tensors are read in bulk.
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
    return message([&] { fit(net, data, loss::mse{}, optim::sgd{}, {.batch = 8}); });
  };
  const std::string why =
      "fit: input `offset` of the model is input 1, but the field of that name is field 0 of the training "
      "data, which has no field `x`; name a field for each input with `dataset::named`, or order the fields as "
      "the inputs";
  BOOST_TEST(fitted_with(sums<partly_named>{}) == why);
  const auto longer = dataset::map(sums<in_order>{},
                                   [](const in_order& s) {
                                     return std::tuple(s.sum, s.offset, std::array<float, 3>{s.x[0], s.x[1], 0});
                                   }) |
                      dataset::named({"sum", "offset", "x"});
  BOOST_TEST(fitted_with(longer) == "fit: the model takes [Nx2]; field `x` of the training data gives [Nx3]");
  BOOST_TEST(message([&] { predict(net, sums<partly_named>{}); }).starts_with("evaluate: input `offset` of the model"));
  BOOST_TEST(fitted_with(sums<in_order>{} | dataset::named({"x", "offset"})) ==
             "data set: 2 names, and a sample has 3 fields");
  BOOST_TEST(fitted_with(sums<in_order>{} | dataset::named({"x", "x", "sum"})) == "data set: two fields are named `x`");
  BOOST_TEST(message([&] { dataset::fields(sums<in_order>{}, {"x", "ofset"}); }) ==
             "data set: no field is named `ofset`; there are `x`, `offset`, `sum`; did you mean `offset`?");
  BOOST_TEST(message([&] { dataset::fields(sounds{}, {"x"}); }) ==
             "data set: no field is named `x`: fields have no names; `dataset::named` gives some");
  BOOST_TEST(message([&] { dataset::fields(sums<in_order>{}, {"x", "x"}); }) == "data set: field 0 is chosen twice");
}

namespace {
const loss::cross_entropy by_entropy;
const augment::batch_mixup mixup_of_three{.classes = 3};
const augment::batch_cutmix cutmix_of_three{.classes = 3};

// The bits do not depend on threads, replicas, or on stopping and resuming.
template <class Loss = loss::cross_entropy, class Model, class Data>
void has_the_same_bits_everywhere(const Model& net, const Data& data, fit_options o, const Loss& by = {}) {
  const optim::adam adam{.lr = 0.01};
  o.shards = 4;
  auto expected = net;
  const auto report = fit(expected, data, by, adam, o);
  for (const int threads : {1, 2, 3, 4}) {
    fit_options other = o;
    other.threads = threads;
    other.read_threads = threads - 1;
    auto copy = net;
    fit(copy, data, by, adam, other);
    BOOST_TEST(same_bits(copy.parameters(), expected.parameters()));
  }
  for (const int count : {1, 2, 4}) {
    std::vector<training_report> reports;
    const auto nets = trained_by(adam, net, count, data, o, nullptr, &reports, {}, by);
    for (std::size_t i = 0; i < nets.size(); ++i) {
      BOOST_TEST(same_bits(nets[i].parameters(), expected.parameters()));
      BOOST_TEST(reports[i].epochs.back().loss == report.epochs.back().loss);
    }
  }
  for (const std::int64_t stop_at : {1, 3}) {  // updates of the second epoch
    const test_files::folder files;
    o.checkpoint = files / "now.safetensors";
    fit_options begun = o;
    begun.observer = [&](const training_progress& now) { return !(now.epoch == 2 && now.batch == stop_at); };
    auto copy = net;
    BOOST_TEST(fit(copy, data, by, adam, begun).stopped);
    auto other = net;
    o.resume = true;
    const auto rest = fit(other, data, by, adam, o);
    BOOST_TEST(same_bits(other.parameters(), expected.parameters()));
    BOOST_TEST(std::abs(rest.epochs[1].loss - report.epochs[1].loss) < 1e-9);
    o.resume = false;
  }
}
}  // namespace

BOOST_AUTO_TEST_CASE(mixed_batches_have_the_same_bits_everywhere) {
  const auto data = squares(70, 1);
  fit_options o{.epochs = 3, .batch = 16, .seed = 5, .change_batches = mixup_of_three};
  has_the_same_bits_everywhere(plain_model({.seed = 1}), data, o);
  o.change_batches = cutmix_of_three;
  has_the_same_bits_everywhere(regular_model({.seed = 1}), data, o);
  has_the_same_bits_everywhere(across_model({.seed = 1}), data, o);  // shards that wait for each other
}

BOOST_AUTO_TEST_CASE(mixed_batches_without_samples_that_cannot_be_read) {
  // Every ninth sample is left out, including the first one of a batch; the others are mixed.
  const auto all = squares(70, 1);
  const auto broken = dataset::map(all, [](const auto& sample, std::int64_t i) {
    if (i % 9 == 4) throw std::runtime_error("its file is cut");
    return std::pair(sample.image, sample.label);
  });
  fit_options o{
      .epochs = 2, .batch = 16, .seed = 5, .on_error = sample_failure::skip, .change_batches = mixup_of_three};
  has_the_same_bits_everywhere(plain_model({.seed = 1}), broken, o);
  plain_model net({.seed = 1});
  const auto report = fit(net, broken, by_entropy, optim::sgd{}, o);
  BOOST_TEST(report.epochs[1].skipped == 8);
}

BOOST_AUTO_TEST_CASE(batches_are_mixed_as_a_whole) {
  const auto data = squares(40, 1);
  plain_model by_fit({.seed = 1}), by_hand({.seed = 1}), not_mixed({.seed = 1});
  const auto report = fit(by_fit, data, by_entropy, optim::sgd{.lr = 0.1},
                          {.batch = 16, .validation = data, .seed = 5, .change_batches = mixup_of_three});
  BOOST_TEST(std::isnan(report.epochs[0].accuracy));
  BOOST_TEST((report.epochs[0].validation_accuracy && *report.epochs[0].validation_accuracy > 0));
  const auto order = permutation(40, 5, 0);
  training step(by_hand, by_entropy, optim::sgd{.lr = 0.1});
  for (std::size_t first = 0; first < 40; first += 16) {
    const std::size_t n = std::min<std::size_t>(16, 40 - first);
    augment::mixed_batch b{tensor<float, extents<dyn, dyn, dyn, dyn>>(static_cast<std::int64_t>(n), 1, 6, 6),
                           matrix<float>(static_cast<std::int64_t>(n), 3)};
    std::vector<std::int64_t> labels(n);
    data.batch({order.data() + first, n}, b.images.writable().data(), labels.data());
    for (std::size_t i = 0; i < n; ++i) b.targets.writable()[3 * i + static_cast<std::size_t>(labels[i])] = 1;
    const auto mixed = augment::mixup(b, {.seed = 5, .epoch = 0, .index = order[first]});
    step(mixed.images, mixed.targets);
  }
  BOOST_TEST(same_bits(by_fit.parameters(), by_hand.parameters()));
  fit(not_mixed, data, by_entropy, optim::sgd{.lr = 0.1}, {.batch = 16, .seed = 5});
  BOOST_TEST(!same_bits(by_fit.parameters(), not_mixed.parameters()));
}

namespace {
// Batches seen, by epoch and first sample.
struct watch {
  std::shared_ptr<std::mutex> lock = std::make_shared<std::mutex>();
  std::shared_ptr<std::multiset<std::vector<std::int64_t>>> seen =
      std::make_shared<std::multiset<std::vector<std::int64_t>>>();
  void operator()(sample_batch& b, const augment::position& at) const {
    const std::lock_guard guard(*lock);
    BOOST_TEST(at.index == b.indices()[0]);
    BOOST_TEST(at.epoch == dataset::epoch());
    seen->emplace(b.indices().begin(), b.indices().end());
  }
};
}  // namespace

BOOST_AUTO_TEST_CASE(a_change_sees_whole_batches) {
  const auto data = squares(40, 1);
  for (const std::int64_t shards : {1, 4})
    for (const std::int64_t accumulate : {1, 2}) {
      const watch seen;
      struct asks {
        std::function<std::vector<named_tensor>()> gradients{};
        void began(const training_start& s) { gradients = s.gradients; }
        bool operator()(const training_progress& now) {
          if (now.batch == 2 && !now.epoch_ended) BOOST_TEST(gradients().size() == 4u);
          return true;
        }
      };
      plain_model net({.seed = 1}), unchanged({.seed = 1});
      fit(net, data, by_entropy, optim::sgd{.lr = 0.1},
          {.batch = 16,
           .observer = asks{},
           .seed = 5,
           .shards = shards,
           .accumulate = accumulate,
           .change_batches = seen});
      // One of them is for the gradients that the observer requests.
      BOOST_TEST(seen.seen->size() == 4u);
      std::set<std::int64_t> all;
      for (const auto& b : *seen.seen) {
        BOOST_TEST((b.size() == 16u || b.size() == 8u));
        all.insert(b.begin(), b.end());
      }
      BOOST_TEST(all.size() == 40u);
      fit(unchanged, data, by_entropy, optim::sgd{.lr = 0.1},
          {.batch = 16, .seed = 5, .shards = shards, .accumulate = accumulate});
      BOOST_TEST(same_bits(net.parameters(), unchanged.parameters()));
    }
}

BOOST_AUTO_TEST_CASE(buckets_have_the_same_bits_everywhere) {
  const auto data = squares(70, 1);
  fit_options o{.epochs = 3, .batch = 8, .seed = 5};
  o.bucket_by = [](std::int64_t i) { return i % 3; };
  has_the_same_bits_everywhere(plain_model({.seed = 1}), data, o);
  o.drop_last = true;
  o.change_batches = mixup_of_three;
  o.accumulate = 2;
  has_the_same_bits_everywhere(plain_model({.seed = 1}), data, o);
}

BOOST_AUTO_TEST_CASE(batches_are_of_buckets_and_may_drop_the_last) {
  const auto data = squares(70, 1);  // buckets of 24, 23 and 23
  for (const bool drop : {false, true})
    for (const bool buckets : {false, true}) {
      const watch seen;
      std::int64_t batches = 0;
      fit_options o{.batch = 8, .seed = 5};
      o.observer = [&](const training_progress& now) { return batches = now.batches, true; };
      o.drop_last = drop;
      if (buckets) o.bucket_by = [](std::int64_t i) { return i % 3; };
      o.change_batches = seen;
      plain_model net({.seed = 1});
      const auto report = fit(net, data, by_entropy, optim::sgd{.lr = 0.1}, o);
      BOOST_TEST(batches == (buckets ? drop ? 7 : 9 : drop ? 8 : 9));
      BOOST_TEST(seen.seen->size() == static_cast<std::size_t>(batches));
      std::set<std::int64_t> all;
      for (const auto& b : *seen.seen) {
        if (drop) BOOST_TEST(b.size() == 8u);
        if (buckets)
          for (const auto i : b) BOOST_TEST(i % 3 == b[0] % 3);
        all.insert(b.begin(), b.end());
      }
      BOOST_TEST(all.size() == (drop ? static_cast<std::size_t>(8 * batches) : 70u));
      BOOST_TEST(report.epochs[0].skipped == 0);
    }
  // Sentences of two to six tokens; lengths within a bucket differ by at most one.
  const auto bucket = dataset::length_buckets(sentences{}, 0, 2);
  const watch seen;
  fit_options o{.epochs = 2, .batch = 4};
  o.bucket_by = bucket;
  o.change_batches = seen;
  tagger_model net({.seed = 1});
  fit(net, sentences{}, loss::cross_entropy{.ignore_index = -100}, optim::sgd{}, o);
  for (const auto& b : *seen.seen) {
    std::set<std::size_t> lengths;
    for (const auto i : b) lengths.insert(sentences{}[i].tokens.size() / 2);
    BOOST_TEST(lengths.size() == 1u);
  }
  // A model with a fixed batch size accepts the remaining batches.
  model<plain_net, input<16, 1, 6, 6>> fixed;
  BOOST_TEST(message([&] { fit(fixed, data, by_entropy, optim::sgd{}, {.batch = 16, .drop_last = true}); }) == "");
  BOOST_TEST(message([&] { fit(fixed, data, by_entropy, optim::sgd{}, {.batch = 16}); }) != "");
}

namespace {
constexpr auto narrow = sequential(nn::flatten{}, nn::linear{.in_features = 36, .out_features = 2});
}
BOOST_AUTO_TEST_CASE(changes_that_do_not_fit_are_said) {
  const auto data = squares(20, 1);
  plain_model net;
  const auto with = [&](const auto& change) {
    return message([&] {
      fit_options o{.batch = 8};
      o.change_batches = change;
      fit(net, data, by_entropy, optim::sgd{}, o);
    });
  };
  BOOST_TEST(with(augment::batch_mixup{}) ==
             "augment::batch_mixup: field 1 is int64[]; expected a row of float32, or `.classes = n` for classes");
  model<narrow, input<"N", 1, 6, 6>> of_two;
  const auto unchecked = dataset::map(data, [](const auto& sample) { return std::pair(sample.image, sample.label); });
  BOOST_TEST(message([&] {
               fit_options o{.batch = 20};
               o.change_batches = augment::batch_mixup{.classes = 2};
               fit(of_two, unchecked, by_entropy, optim::sgd{}, o);
             }).find(" is outside 0..1") != std::string::npos);
  BOOST_TEST(with(augment::batch_cutmix{.classes = 3, .input = 1, .target = 0}) ==
             "augment::batch_cutmix: field 1 is int64[]; expected float32 [channels x height x width]");
  BOOST_TEST(with(augment::batch_cutmix{.classes = 3, .target = 2}) ==
             "augment::batch_cutmix: `input` is field 0 and `target` field 2 of 2; expected two different fields");
  BOOST_TEST(
      with([](sample_batch& b, const augment::position&) { b.set(1, any_tensor(matrix<float>(b.size(), 3))); }) ==
      "fit: after `change_batches`, field 1 of a batch is float32[8x3]; expected samples of int64[], as its "
      "`types` says");
  BOOST_TEST(with([](sample_batch& b, const augment::position&) { b.set(1, any_tensor(vector<std::int64_t>(2))); }) ==
             "sample_batch: field 1 of 8 samples is set to int64[2]; expected one row per sample");
  fit_options o{.batch = 8};
  o.bucket_by = [](std::int64_t i) { return i; };
  o.accumulate = 2;
  BOOST_TEST(message([&] { fit(net, data, by_entropy, optim::sgd{}, o); }) ==
             "fit: `bucket_by` with `accumulate` has partial batches within an update; expected "
             "`.drop_last = true`, or only one of them");
  o.drop_last = true;
  BOOST_TEST(message([&] { fit(net, data, by_entropy, optim::sgd{}, o); }) ==
             "fit: `drop_last` drops all 20 samples, which fill no batch of 8 in any bucket");
  BOOST_TEST(message([&] { dataset::length_buckets(sentences{}, 0, 0); }) ==
             "dataset::length_buckets: the width is 0; expected at least 1");
}

BOOST_AUTO_TEST_SUITE_END()
