// Operators of ai.onnx.ml, except trees, as scikit-learn exporters emit them.
module lamina.onnx:ml.impl;
import :convert;
import :message;
import :ml;
import lamina;
import lamina.std;

namespace lamina::onnx {

value features_of(node_call& c, std::size_t i) {
  const value x = c[i];
  return x.type().element == dtype::float64 ? x : value(c.cast_to(x, dtype::float32));
}
std::vector<double> numbers_of(node_call& c, std::string_view name) {
  const auto t = c.tensor(std::string(name) + "_as_tensor");
  if (!t) return c.reals(name);
  std::vector<double> all;
  with_type(t->element(), [&]<class T>() {
    if constexpr (std::is_convertible_v<T, double>)
      for (auto v : t->elements<T>()) all.push_back(static_cast<double>(v));
  });
  return all;
}
value table_of(node_call& c, const std::vector<double>& numbers, dtype e, const shape& s) {
  if (static_cast<std::int64_t>(numbers.size()) != s.size())
    c.fail("it has ", numbers.size(), " numbers; expected ", s.size());
  if (!is_real(e)) return c.cast_to(table_of(c, numbers, dtype::float32, s), e);
  any_tensor t({e, s});
  if (e == dtype::float64) std::memcpy(t.mutable_data(), numbers.data(), numbers.size() * sizeof(double));
  else {
    const std::vector<float> rounded(numbers.begin(), numbers.end());
    std::memcpy(t.mutable_data(), rounded.data(), rounded.size() * sizeof(float));
  }
  return c.constant(std::move(t));
}

// ---- scores ---------------------------------------------------------------------------------------------------------

namespace {

// The quantile function of the normal distribution, by Winitzki's approximation of erf.
value probit(const value& x) {
  const value centered = x * 2 - 1;
  constexpr double a = 0.147, pi = 3.14159265358979323846;
  const value log = lamina::log((1 - centered) * (1 + centered)), v = log * 0.5 + 2 / (pi * a);
  return lamina::sign(centered) * lamina::sqrt(lamina::sqrt(v * v - log / a) - v) * 1.41421356;
}
// Softmax over nonzero scores; zero scores are scaled linearly.
value softmax_zero(const value& x) {
  const value top = lamina::reduce_max(x, {.axes = {1}, .keepdim = true});
  const value made = lamina::where(lamina::abs(x) > 1e-7, lamina::exp(x - top), x * lamina::exp(-top));
  const value sum = lamina::reduce_sum(made, {.axes = {1}, .keepdim = true});
  return lamina::where(sum == 0, 0.5, made / sum);
}

}  // namespace

value transformed(node_call& c, const value& scores, std::string_view how) {
  if (how.empty() || how == "NONE") return scores;
  if (how == "LOGISTIC") return lamina::sigmoid(scores);
  if (how == "SOFTMAX") return lamina::softmax(scores, {.axis = 1});
  if (how == "SOFTMAX_ZERO") return softmax_zero(scores);
  if (how == "PROBIT") return probit(scores);
  c.fail("unknown `post_transform` `", printable(how), "`");
}
std::string post_transform(node_call& c) { return c.string("post_transform", "NONE"); }

std::vector<std::int64_t> labels_of(node_call& c, std::string_view name) {
  const std::string all(name);
  if (c.has_attribute(all + "_strings") && !c.strings(all + "_strings").empty())
    c.unsupported("string labels are not supported");
  if (c.has_attribute(all + "_ints")) return c.node_call::integers(all + "_ints");
  return c.node_call::integers(all + "_int64s");
}
value labels_at(node_call& c, const std::vector<std::int64_t>& labels, const value& positions) {
  return lamina::gather(c.constant(labels), positions, 0);
}
value largest_of(const value& scores) { return lamina::argmax(scores, {.axis = 1, .keepdim = false}); }

namespace {

// Two score columns, from a model with a single score.
value two_columns(const value& first, const value& second) {
  const value both[] = {first, second};
  return lamina::concat(view<const value>(both), 1);
}
value rows_of(node_call& c, std::size_t i) {
  const value x = features_of(c, i);
  return x.shape().rank == 1 ? value(lamina::unsqueeze(x, axes(0))) : x;
}
std::int64_t columns_of(node_call& c, std::size_t numbers, std::int64_t rows) {
  if (rows < 1 || numbers == 0 || static_cast<std::int64_t>(numbers) % rows)
    c.fail(numbers, " coefficients do not divide into ", rows, " rows");
  return static_cast<std::int64_t>(numbers) / rows;
}

// ---- linear models --------------------------------------------------------------------------------------------------

void linear_regressor(node_call& c) {
  const value x = rows_of(c, 0);
  const dtype e = x.type().element;
  const std::int64_t targets = c.integer("targets", 1);
  const auto weights = c.reals("coefficients"), terms = c.reals("intercepts");
  const value w = table_of(c, weights, e, {targets, columns_of(c, weights.size(), targets)});
  value y = lamina::matmul(x, w, {.transpose_b = true});
  if (!terms.empty()) y = y + table_of(c, terms, e, {targets});
  c.give(0, c.cast_to(transformed(c, y, post_transform(c)), dtype::float32));
}

void linear_classifier(node_call& c) {
  const value x = rows_of(c, 0);
  const dtype e = x.type().element;
  const auto weights = c.reals("coefficients"), terms = c.reals("intercepts");
  const auto labels = labels_of(c, "classlabels");
  const auto rows = static_cast<std::int64_t>(terms.empty() ? std::max<std::size_t>(labels.size(), 1) : terms.size());
  const value w = table_of(c, weights, e, {rows, columns_of(c, weights.size(), rows)});
  value y = lamina::matmul(x, w, {.transpose_b = true});
  if (!terms.empty()) y = y + table_of(c, terms, e, {rows});
  const std::string how = post_transform(c);
  if (rows == 1) {
    const bool two = labels.size() == 2;
    const value positive = lamina::squeeze(y, axes(1)) > 0;
    c.give(0, lamina::where(positive, c.constant(two ? static_cast<double>(labels[1]) : 1, dtype::int64),
                            c.constant(two ? static_cast<double>(labels[0]) : 0, dtype::int64)));
    if (two) y = how == "LOGISTIC" ? transformed(c, two_columns(-y, y), how) : two_columns(1 - y, y);
    else if (how != "NONE") y = transformed(c, y, how);
    return c.give(1, c.cast_to(y, dtype::float32));
  }
  if (static_cast<std::int64_t>(labels.size()) != rows) c.fail(labels.size(), " labels for ", rows, " classes");
  c.give(0, labels_at(c, labels, largest_of(y)));
  c.give(1, c.cast_to(transformed(c, y, how), dtype::float32));
}

// ---- support vectors ------------------------------------------------------------------------------------------------

// Kernel matrix between rows of x and vectors [V, F], in float64: [N, V].
value kernel_of(node_call& c, const value& x, const value& vectors, const std::string& kind) {
  const auto parameters = c.reals("kernel_params");
  const auto parameter = [&](std::size_t i) { return i < parameters.size() ? parameters[i] : 0; };
  const value dot = lamina::matmul(x, vectors, {.transpose_b = true});
  if (kind == "LINEAR") return dot;
  if (kind == "POLY") return lamina::pow(dot * parameter(0) + parameter(1), c.constant(parameter(2), dtype::float64));
  if (kind == "SIGMOID") return lamina::tanh(dot * parameter(0) + parameter(1));
  if (kind != "RBF") c.fail("unknown kernel `", printable(kind), "`");
  const value of_x = lamina::reduce_sum(x * x, {.axes = {1}, .keepdim = true});
  const value of_vectors = lamina::reduce_sum(vectors * vectors, {.axes = {1}});
  return lamina::exp(lamina::max(of_x + of_vectors - dot * 2, 0) * -parameter(0));
}
std::string kernel_kind(node_call& c) { return c.string("kernel_type", "LINEAR"); }

void svm_regressor(node_call& c) {
  const value x = c.cast_to(rows_of(c, 0), dtype::float64);
  const auto weights = c.reals("coefficients"), rho = c.reals("rho"), vectors = c.reals("support_vectors");
  const std::int64_t count = c.integer("n_supports", 0);
  if (rho.empty()) c.fail("`rho` is missing");
  const value w = table_of(c, weights, dtype::float64, {static_cast<std::int64_t>(weights.size()), 1});
  value y;
  if (count > 0) {
    const value v = table_of(c, vectors, dtype::float64, {count, columns_of(c, vectors.size(), count)});
    y = lamina::matmul(kernel_of(c, x, v, kernel_kind(c)), w);
  } else y = lamina::matmul(x, w);
  y = y + rho[0];
  if (c.flag("one_class")) y = lamina::where(y > 0, c.constant(1.0, dtype::float64), c.constant(-1.0, dtype::float64));
  c.give(0, c.cast_to(transformed(c, y, post_transform(c)), dtype::float32));
}

// One-vs-one scores of class pairs, and votes.
struct pair_scores {
  std::vector<value> of{};  // [N, 1] for each i < j
  std::vector<value> votes{};
};
pair_scores scores_of_pairs(node_call& c, const value& kernel, const std::vector<std::int64_t>& counts) {
  const auto classes = static_cast<std::int64_t>(counts.size());
  std::int64_t whole = 0;
  std::vector<std::int64_t> first;
  for (auto n : counts) {
    if (n < 0) c.fail("a class has ", n, " vectors");
    first.push_back(whole);
    if (__builtin_add_overflow(whole, n, &whole)) c.fail("its classes have too many vectors");
  }
  const auto weights = c.reals("coefficients"), rho = c.reals("rho");
  const value w = table_of(c, weights, dtype::float64, {classes - 1, whole});
  if (static_cast<std::int64_t>(rho.size()) < classes * (classes - 1) / 2) c.fail("`rho` has ", rho.size(), " numbers");
  const auto part = [&](std::int64_t of, std::int64_t row) {  // weighted kernel sum of the vectors of a class, for a
                                                              // row of weights
    const std::int64_t from = first[static_cast<std::size_t>(of)], to = from + counts[static_cast<std::size_t>(of)];
    const value k = lamina::slice(kernel, {.start = from, .stop = to, .axis = 1});
    const value r = lamina::slice(lamina::slice(w, {.start = row, .stop = row + 1, .axis = 0}),
                                  {.start = from, .stop = to, .axis = 1});
    return value(lamina::matmul(k, r, {.transpose_b = true}));
  };
  pair_scores p;
  p.votes.resize(counts.size());
  const auto vote = [&](std::int64_t i, const value& v) {
    value& sum = p.votes[static_cast<std::size_t>(i)];
    sum = sum.empty() ? v : value(sum + v);
  };
  for (std::int64_t i = 0; i < classes; ++i)
    for (std::int64_t j = i + 1; j < classes; ++j) {
      p.of.push_back(part(i, j - 1) + part(j, i) + rho[p.of.size()]);
      const value won = c.cast_to(p.of.back() > 0, dtype::float64);
      vote(i, won), vote(j, 1 - won);
    }
  return p;
}

// One iteration of pairwise coupling; updates the classes in sequence.
value coupled_round(const value& q, const value& p, std::int64_t classes, value& error) {
  const auto column = [](const value& x, std::int64_t i) {
    return value(lamina::slice(x, {.start = i, .stop = i + 1, .axis = 1}));
  };
  value products = lamina::squeeze(lamina::matmul(q, lamina::unsqueeze(p, axes(2))), axes(2)), now = p;
  value whole = lamina::reduce_sum(p * products, {.axes = {1}, .keepdim = true});
  error = lamina::reduce_max(lamina::abs(products - whole), {.axes = {1}, .keepdim = true});
  for (std::int64_t t = 0; t < classes; ++t) {
    const value row = lamina::select(q, 1, t), own = column(row, t), at = column(products, t);
    const value step = (whole - at) / own, scale = step + 1;
    std::vector<double> unit(static_cast<std::size_t>(classes));
    unit[static_cast<std::size_t>(t)] = 1;
    any_tensor here({dtype::float64, {1, classes}});
    std::memcpy(here.mutable_data(), unit.data(), unit.size() * sizeof(double));
    now = (now + step * q.owner().constant(std::move(here))) / scale;
    whole = (whole + step * (step * own + at * 2)) / (scale * scale);
    products = (products + step * row) / scale;
  }
  return now;
}
// Class probabilities from pairwise ones (Wu, Lin, Weng, 2004), as in libsvm.
value coupled(node_call& c, const std::vector<value>& pairs, std::int64_t classes) {
  std::map<std::pair<std::int64_t, std::int64_t>, value> r;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < classes; ++i)
    for (std::int64_t j = i + 1; j < classes; ++j) r[{i, j}] = pairs[at], r[{j, i}] = 1 - pairs[at], ++at;
  std::vector<value> rows;
  for (std::int64_t t = 0; t < classes; ++t) {
    std::vector<value> row(static_cast<std::size_t>(classes));
    value& own = row[static_cast<std::size_t>(t)];
    for (std::int64_t j = 0; j < classes; ++j) {
      if (j == t) continue;
      const value& other = r[{j, t}];
      row[static_cast<std::size_t>(j)] = -other * r[{t, j}];
      own = own.empty() ? value(other * other) : value(own + other * other);
    }
    rows.push_back(lamina::concat(view<const value>(row), 1));
  }
  const value q = lamina::stack(view<const value>(rows), 1);  // [N, classes, classes]
  const value first = lamina::select(q, 1, 0) * 0 + 1.0 / static_cast<double>(classes);
  const value undecided = lamina::slice(first, {.start = 0, .stop = 1, .axis = 1}) < 0;
  auto body = std::make_shared<ir::program>();
  const value p = body->input("p", first.type()), done = body->input("done", undecided.type()),
              all = body->input("q", q.type());
  value error;
  const value next = coupled_round(all, p, classes, error);
  const value ready = done || error < 0.005 / static_cast<double>(classes);
  body->output("more", lamina::reshape(lamina::reduce_any(!ready), shape{}));
  body->output("p", lamina::where(ready, p, next));
  body->output("done", ready);
  const value carried[] = {first, undecided}, same[] = {q};
  return lamina::loop(std::max<std::int64_t>(100, classes), c.constant(1.0, dtype::boolean), body,
                      view<const value>(carried), view<const value>(same))[0];
}

void svm_classifier(node_call& c) {
  const value x = c.cast_to(rows_of(c, 0), dtype::float64);
  const auto labels = labels_of(c, "classlabels");
  const auto counts = c.node_call::integers("vectors_per_class");
  const auto weights = c.reals("coefficients"), rho = c.reals("rho"), vectors = c.reals("support_vectors"),
             a = c.reals("prob_a"), b = c.reals("prob_b");
  const auto classes = static_cast<std::int64_t>(std::max<std::size_t>(labels.size(), 1));
  std::int64_t whole = 0;
  for (auto n : counts)
    if (n < 0 || __builtin_add_overflow(whole, n, &whole)) c.fail("a class has ", n, " vectors");
  if (classes > 256) c.unsupported(classes, " classes; the limit is 256");
  const std::string how = post_transform(c);
  value scores, votes;
  bool probabilities = false;
  if (whole > 0) {
    if (static_cast<std::int64_t>(counts.size()) != classes || classes < 2)
      c.fail(classes, " labels for ", counts.size(), " classes");
    const value v = table_of(c, vectors, dtype::float64, {whole, columns_of(c, vectors.size(), whole)});
    pair_scores p = scores_of_pairs(c, kernel_of(c, x, v, kernel_kind(c)), counts);
    votes = lamina::concat(view<const value>(p.votes), 1);
    probabilities = !a.empty();
    if (probabilities) {
      if (a.size() < p.of.size() || b.size() < p.of.size()) c.fail("`prob_a` has ", a.size(), " numbers");
      std::vector<value> pairs;
      for (std::size_t i = 0; i < p.of.size(); ++i)
        pairs.push_back(lamina::clamp(1 - lamina::sigmoid(p.of[i] * a[i] + b[i]), 1e-7, 1 - 1e-7));
      scores = coupled(c, pairs, classes);
    } else scores = p.of.size() == 1 ? p.of[0] : lamina::concat(view<const value>(p.of), 1);
  } else {
    if (rho.empty()) c.fail("`rho` is missing");
    const value w = table_of(c, weights, dtype::float64, {classes, columns_of(c, weights.size(), classes)});
    scores = lamina::matmul(x, w, {.transpose_b = true}) + rho[0];
  }
  const value best = largest_of(votes.empty() ? scores : votes);
  if (rho.size() == 1 && labels.size() != 2) {
    const value max = lamina::reduce_max(votes.empty() ? scores : votes, {.axes = {1}});
    c.give(0, c.cast_to(max > 0, dtype::int64));
  } else c.give(0, labels_at(c, labels, best));
  const bool one = scores.shape()[1] == dim(1);
  if (one && rho.size() == 1 && labels.size() == 2 && how != "PROBIT") scores = two_columns(-scores, scores);
  scores = transformed(c, scores, how);
  c.give(1, c.cast_to(scores, dtype::float32));
}

// ---- features -------------------------------------------------------------------------------------------------------

void scaler(node_call& c) {
  const value x = features_of(c, 0);
  const dtype e = x.type().element;
  const auto offsets = c.reals("offset"), scales = c.reals("scale");
  value y = x;
  const auto row = [&](const std::vector<double>& n) {
    return table_of(c, n, e, n.size() == 1 ? shape{} : shape{static_cast<std::int64_t>(n.size())});
  };
  if (!offsets.empty()) y = y - row(offsets);
  if (!scales.empty()) y = y * row(scales);
  c.give(0, c.cast_to(y, dtype::float32));
}
void normalizer(node_call& c) {
  const value x = features_of(c, 0);
  const std::string how = c.string("norm", "MAX");
  const reduce_attributes last{.axes = {x.shape().rank - 1}, .keepdim = true};
  value by;
  if (how == "MAX") by = lamina::reduce_max(x, last);
  else if (how == "L1") by = lamina::reduce_sum(lamina::abs(x), last);
  else if (how == "L2") by = lamina::sqrt(lamina::reduce_sum(x * x, last));
  else c.fail("unknown norm `", printable(how), "`");
  c.give(0, c.cast_to(lamina::where(by == 0, x, x / by), dtype::float32));
}
void binarizer(node_call& c) {
  const value x = c[0];
  c.give(0, c.cast_to(features_of(c, 0) > c.real("threshold", 0), x.type().element));
}
void imputer(node_call& c) {
  const value x = c[0];
  const dtype e = x.type().element;
  const bool whole = is_integer(e);
  value made;
  if (whole) {
    const auto values = c.node_call::integers("imputed_value_int64s");
    if (values.empty()) c.fail("`imputed_value_int64s` is missing");
    made = c.cast_to(c.constant(values), e);
  } else {
    const auto values = c.reals("imputed_value_floats");
    if (values.empty()) c.fail("`imputed_value_floats` is missing");
    made = table_of(c, values, e == dtype::float64 ? e : dtype::float32, {static_cast<std::int64_t>(values.size())});
  }
  const double missing =
      whole ? static_cast<double>(c.integer("replaced_value_int64", 0)) : c.real("replaced_value_float", 0);
  const value there = std::isnan(missing) ? value(x != x) : value(x == c.constant(missing, e));
  c.give(0, lamina::where(there, made, x));
}
void array_feature_extractor(node_call& c) {
  const value x = c[0];
  const int rank = x.shape().rank;
  if (rank < 1) c.fail("its operand is a scalar");
  const value y = lamina::gather(x, lamina::reshape(c.cast_to(c[1], dtype::int64), shape{dyn}), rank - 1);
  c.give(0, rank == 1 ? value(lamina::unsqueeze(y, axes(0))) : y);
}
void feature_vectorizer(node_call& c) {
  const auto sizes = c.node_call::integers("inputdimensions");
  std::vector<value> parts;
  for (std::size_t i = 0; i < c.size(); ++i) {
    value x = c.cast_to(c[i], dtype::float32);
    if (x.shape().rank == 1) x = lamina::unsqueeze(x, axes(0));
    if (x.shape().rank != 2) c.fail("operand ", i, " must have rank 2; got ", x.shape());
    if (i < sizes.size() && x.shape()[1] != dim(sizes[i])) {
      if (sizes[i] < 1) c.fail("part ", i, " has ", sizes[i], " columns");
      if (!x.shape()[1].is_number()) c.unsupported("the columns of its operand ", i, " are not known");
      const std::int64_t n = x.shape().at(1);
      x = n > sizes[i] ? value(lamina::slice(x, {.start = 0, .stop = sizes[i], .axis = 1}))
                       : value(lamina::pad(x, {.axis = 1, .before = 0, .after = sizes[i] - n}));
    }
    parts.push_back(x);
  }
  if (parts.empty()) c.fail("it has no operands");
  c.give(0, parts.size() == 1 ? parts[0] : lamina::concat(view<const value>(parts), 1));
}
void one_hot_encoder(node_call& c) {
  if (const auto texts = c.strings("cats_strings"); !texts.empty()) {
    const auto count = static_cast<std::int64_t>(texts.size());
    const value place = place_of_label(c, c[0], any_tensor::of_strings({count}, view<const std::string>(texts)));
    std::vector<std::int64_t> all(texts.size());
    std::iota(all.begin(), all.end(), 1);
    return c.give(0, c.cast_to(lamina::unsqueeze(place, axes(place.shape().rank)) == c.constant(all), dtype::float32));
  }
  const auto categories = c.node_call::integers("cats_int64s");
  if (categories.empty()) c.fail("`cats_int64s` is missing");
  const value x = c.cast_to(c[0], dtype::int64);
  c.give(0, c.cast_to(lamina::unsqueeze(x, axes(x.shape().rank)) == c.constant(categories), dtype::float32));
}

// Keys or values of an encoder, from whichever attribute holds them.
std::optional<any_tensor> list_of(node_call& c, const std::string& name) {
  if (auto t = c.tensor(name + "_tensor")) return t;
  const auto with = [&]<class T>(const std::vector<T>& all) {
    any_tensor t({dtype_of<T>, {static_cast<std::int64_t>(all.size())}});
    if (!all.empty()) std::memcpy(t.mutable_data(), all.data(), all.size() * sizeof(T));
    return t;
  };
  if (c.has_attribute(name + "_int64s")) return with(c.node_call::integers(name + "_int64s"));
  if (c.has_attribute(name + "_floats")) {
    const auto all = c.reals(name + "_floats");
    return with(std::vector<float>(all.begin(), all.end()));
  }
  if (c.has_attribute(name + "_strings")) {
    const auto all = c.strings(name + "_strings");
    return any_tensor::of_strings({static_cast<std::int64_t>(all.size())}, view<const std::string>(all));
  }
  return {};
}
// String labels by position from 1 on; position 0 is the default.
void labels_that_are_strings(node_call& c, const any_tensor& values, const value& place) {
  std::string otherwise = c.string("default_string", "_Unused");
  if (const auto t = c.tensor("default_tensor")) {
    if (t->element() != dtype::string || t->shape().size() != 1) c.fail("`default_tensor` must be a vector of strings");
    otherwise = t->elements<std::string_view>()[0];
  }
  const value pools[] = {c.constant(any_tensor::of_strings({1}, view<const std::string>(&otherwise, 1))),
                         c.constant(values)};
  c.give(0, lamina::take_strings(view<const value>(pools), place));
}
void label_encoder(node_call& c) {
  const auto keys = list_of(c, "keys"), values = list_of(c, "values");
  if (!keys || !values || keys->shape().size() != values->shape().size())
    c.fail("its keys and values are missing, or differ in number");
  const dtype e = values->element();
  const value place = place_of_label(c, c[0], *keys);
  if (e == dtype::string) return labels_that_are_strings(c, *values, place);
  value otherwise;
  if (auto t = c.tensor("default_tensor"))
    otherwise = c.cast_to(lamina::reshape(c.constant(*std::move(t)), shape{1}), e);
  else if (is_integer(e))
    otherwise = c.cast_to(c.constant(std::vector<std::int64_t>{c.integer("default_int64", -1)}), e);
  else otherwise = lamina::reshape(c.constant(c.real("default_float", -0.0), e), shape{1});
  if (keys->shape().size() == 0) return c.give(0, lamina::broadcast_like(otherwise, place));
  const value both[] = {otherwise, lamina::reshape(c.constant(*values), shape{dyn})};
  c.give(0, lamina::gather(lamina::concat(view<const value>(both)), place, 0));
}
// Opset 1: maps strings to positions, and positions to strings.
void label_encoder_1(node_call& c) {
  const auto classes = c.strings("classes_strings");
  const auto all =
      any_tensor::of_strings({static_cast<std::int64_t>(classes.size())}, view<const std::string>(classes));
  if (c.type(0).element == dtype::string) {
    const value place = place_of_label(c, c[0], all);
    return c.give(0, lamina::where(place == 0, c.integer("default_int64", -1), place - 1));
  }
  const value x = c.cast_to(c[0], dtype::int64);
  const auto count = static_cast<std::int64_t>(classes.size());
  labels_that_are_strings(c, all, lamina::where(x >= 0 && x < count, x + 1, 0));
}

constexpr converter_entry entries[] = {
    {"ArrayFeatureExtractor", 1, array_feature_extractor},
    {"Binarizer", 1, binarizer},
    {"FeatureVectorizer", 1, feature_vectorizer},
    {"Imputer", 1, imputer},
    {"LabelEncoder", 1, label_encoder_1},
    {"LabelEncoder", 2, label_encoder},
    {"LinearClassifier", 1, linear_classifier},
    {"LinearRegressor", 1, linear_regressor},
    {"Normalizer", 1, normalizer},
    {"OneHotEncoder", 1, one_hot_encoder},
    {"SVMClassifier", 1, svm_classifier},
    {"SVMRegressor", 1, svm_regressor},
    {"Scaler", 1, scaler},
};

}  // namespace

converter_list machine_learning_converters() { return entries; }

}  // namespace lamina::onnx
