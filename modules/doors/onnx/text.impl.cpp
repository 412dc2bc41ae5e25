// String operators, and string operands of operators that only move elements, which run on positions instead.
module lamina.onnx:text.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

value string_constant(node_call& c, const std::vector<std::string>& all) {
  return c.constant(any_tensor::of_strings({dim(static_cast<std::int64_t>(all.size()))}, view<const std::string>(all)));
}
any_tensor integers_of(const std::vector<std::int64_t>& all) {
  any_tensor t({dtype::int64, {static_cast<std::int64_t>(all.size())}});
  if (!all.empty()) std::memcpy(t.mutable_data(), all.data(), all.size() * sizeof all[0]);
  return t;
}
value one_string(node_call& c, const std::string& word) { return string_constant(c, {word}); }
value one_pool(const value& pool, const value& positions) {
  return lamina::take_strings(view<const value>(&pool, 1), positions);
}

void concat(node_call& c) { c.give(0, lamina::string_concat(c[0], c[1])); }

void split(node_call& c) {
  const std::int64_t max = c.has_attribute("maxsplit") ? c.integer("maxsplit") : -1;
  const auto made = lamina::string_split(c[0], one_string(c, c.string("delimiter", "")), {.max = max});
  c.give(0, made[0]);
  c.give(1, made[1]);
}

void normalizer(node_call& c) {
  const std::string how = c.string("case_change_action", "NONE");
  const auto change = how == "LOWER" ? case_change::lower : how == "UPPER" ? case_change::upper : case_change::none;
  if (change == case_change::none && how != "NONE") c.fail("unknown `case_change_action` `", printable(how), "`");
  c.give(0, lamina::string_normalize(c[0], string_constant(c, c.strings("stopwords")),
                                     {.change = static_cast<std::int64_t>(change),
                                      .is_case_sensitive = c.flag("is_case_sensitive", false)}));
}

void full_match(node_call& c) { c.give(0, lamina::regex_full_match(c[0], one_string(c, c.string("pattern", "")))); }

void tf_idf(node_call& c) {
  const auto begins = c.node_call::integers("ngram_counts"), numbers = c.node_call::integers("ngram_indexes");
  std::int64_t width = 0;
  for (const auto n : numbers) width = std::max(width, n + 1);
  const std::string mode = c.string("mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") c.fail("unknown `mode` `", printable(mode), "`");
  const auto given = c.reals("weights");
  any_tensor weights({dtype::float32, {static_cast<std::int64_t>(given.size())}});
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto w = static_cast<float>(given[i]);
    std::memcpy(weights.mutable_data() + i * sizeof w, &w, sizeof w);
  }
  const bool is_text = c.type(0).element == dtype::string;
  const value pool = is_text ? string_constant(c, c.strings("pool_strings"))
                             : c.constant(integers_of(c.node_call::integers("pool_int64s")));
  const value x = is_text ? c[0] : c.cast_to(c[0], dtype::int64);
  c.give(0, lamina::tf_idf(x, pool, c.constant(integers_of(begins)), c.constant(integers_of(numbers)),
                           c.constant(std::move(weights)),
                           {.shortest = c.integer("min_gram_length"),
                            .longest = c.integer("max_gram_length"),
                            .skips = c.integer("max_skip_count"),
                            .width = width,
                            .counts = mode != "IDF",
                            .weighted = mode != "TF" && !given.empty()}));
}

// ---- labels ---------------------------------------------------------------------------------------------------------

void category_mapper(node_call& c) {
  const auto texts = c.strings("cats_strings");
  const auto numbers = c.node_call::integers("cats_int64s");
  if (texts.size() != numbers.size()) c.fail(texts.size(), " strings, but ", numbers.size(), " numbers");
  const auto prepended = [](auto first, const auto& all) {
    std::vector<decltype(first)> made{std::move(first)};
    made.insert(made.end(), all.begin(), all.end());
    return made;
  };
  if (c.type(0).element == dtype::string) {
    const auto values = prepended(c.integer("default_int64", -1), numbers);
    const value at = place_of_label(c, c[0], any_tensor::of_strings({static_cast<std::int64_t>(texts.size())}, texts));
    return c.give(0, lamina::gather(c.constant(integers_of(values)), at, 0));
  }
  const value at = place_of_label(c, c[0], integers_of(numbers));
  c.give(0, one_pool(string_constant(c, prepended(c.string("default_string", "_Unused"), texts)), at));
}

// ---- elements that move ---------------------------------------------------------------------------------------------

bool holds_strings(const node_call& c, std::size_t i) {
  if (!c.has(i) || c.operand(i).open_sequence) return false;
  const known_value& k = c.operand(i);
  if (k.data) return k.data.element() == dtype::string;
  return !k.v.empty() && k.v.type().is_tensor() && k.v.type().element == dtype::string;
}
bool is_one_of(std::string_view op, view<const std::string_view> all) {
  return std::find(all.begin(), all.end(), op) != all.end();
}
constexpr std::string_view movers[] = {"ArrayFeatureExtractor",
                                       "Compress",
                                       "Concat",
                                       "DepthToSpace",
                                       "Expand",
                                       "Flatten",
                                       "Gather",
                                       "GatherElements",
                                       "GatherND",
                                       "Reshape",
                                       "ReverseSequence",
                                       "Scatter",
                                       "ScatterElements",
                                       "ScatterND",
                                       "Slice",
                                       "Split",
                                       "SpaceToDepth",
                                       "Squeeze",
                                       "Tile",
                                       "Transpose",
                                       "Unsqueeze",
                                       "Where"};
constexpr std::string_view of_shapes[] = {"Shape", "Size"};

// Converts the node with numbers in place of strings; returns all results.
std::vector<known_value> with_numbers(node_call& c, converter convert, view<const value> numbers) {
  std::vector<known_value> copies(c.size());
  std::vector<known_value*> operands(c.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (!c.has(i)) continue;
    if (!holds_strings(c, i)) copies[i] = c.operand(i);
    else if (next < numbers.size()) copies[i].v = numbers[next++];
    else c.fail("operand ", i, " must not be strings");
    operands[i] = &copies[i];
  }
  node_call inner(c.node, c.opset, c.p, c.around, std::move(operands));
  convert(inner);
  return std::move(inner.results);
}
value of_result(node_call& c, known_value& k) { return k.v.empty() ? c.constant(k.data) : k.v; }

void move(node_call& c, converter convert) {
  std::vector<value> pools, positions;
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (!holds_strings(c, i)) continue;
    positions.push_back(lamina::string_positions(c[i], view<const value>(pools)));
    pools.push_back(c[i]);
  }
  auto made = with_numbers(c, convert, positions);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i].v.empty() && !made[i].data) continue;
    c.give(i, lamina::take_strings(view<const value>(pools), of_result(c, made[i])));
  }
}
void unique(node_call& c, converter convert) {
  const auto ranks = lamina::string_ranks(c[0]);
  auto made = with_numbers(c, convert, {ranks[0]});
  for (std::size_t i = 0; i < made.size(); ++i)
    if (i == 0) c.give(i, one_pool(ranks[1], of_result(c, made[i])));
    else c.results[i] = std::move(made[i]);
}

// ---- casts ----------------------------------------------------------------------------------------------------------

bool is_read(dtype t) { return is_real(t) || is_integer(t) || t == dtype::boolean || t == dtype::uint64; }
void cast(node_call& c, dtype to) {
  const bool from_text = holds_strings(c, 0);
  if (from_text && to == dtype::string) return c.give(0, c[0]);
  if (!from_text) {
    const dtype e = c.type(0).element;
    return c.give(0, lamina::number_to_string(e == dtype::uint64 ? c[0] : c.number(0)));
  }
  const dtype read = is_read(to) ? to : has_real_numbers(to) ? dtype::float32 : dtype::int64;
  c.give(0, c.cast_to(lamina::string_to_number(c[0], read), to));
}

constexpr converter_entry entries[] = {
    {"RegexFullMatch", 20, full_match, false},   {"StringConcat", 20, concat, false},
    {"StringNormalizer", 10, normalizer, false}, {"StringSplit", 20, split, false},
    {"TfIdfVectorizer", 9, tf_idf, false},
};
constexpr converter_entry ml_entries[] = {
    {"CategoryMapper", 1, category_mapper, false},
};

}  // namespace

value place_of_label(node_call& c, const value& x, const any_tensor& keys) {
  if (x.type().element == dtype::string) {
    if (keys.element() != dtype::string)
      c.fail("its keys are ", keys.element(), "; expected strings, as in its operand");
    return lamina::find_strings(x, c.constant(keys)) + 1;
  }
  if (keys.element() == dtype::string) c.fail("its keys are strings; expected numbers, as in its operand ", x.type());
  if (keys.shape().size() == 0) return lamina::broadcast_like(c.constant(0.0, dtype::int64), x);
  const value all = lamina::reshape(c.cast_to(c.constant(keys), x.type().element), shape{dyn});
  const value each = lamina::unsqueeze(x, axes(x.shape().rank));
  const value found = each == all || (each != each && all != all);
  const value place = lamina::where(found, lamina::positions(all, 0) + 1, 0);
  return lamina::reduce_max(place, {.axes = {x.shape().rank}});
}

void convert_strings(node_call& c, converter convert) {
  const std::string_view op = c.node.op;
  const bool standard = c.node.domain.empty() || c.node.domain == "ai.onnx" || c.node.domain == "ai.onnx.ml";
  bool any = false;
  for (std::size_t i = 0; i < c.size(); ++i) any = any || holds_strings(c, i);
  if (standard && op == "Cast") {
    const dtype to = c.element("to");
    if (any || to == dtype::string) return cast(c, to);
  }
  if (!standard || !any) return convert(c);
  if (op == "CastLike") return cast(c, c.type(1).element);
  if (op == "Equal") return c.give(0, lamina::equal_strings(c[0], c[1]));
  if (op == "Unique") return unique(c, convert);
  if (is_one_of(op, movers)) return move(c, convert);
  if (!is_one_of(op, of_shapes)) return convert(c);
  c.results = with_numbers(c, convert, {lamina::string_positions(c[0])});
}

value as_result(const value& v) {
  const bool is_text = v.type().is_tensor() && v.type().element == dtype::string;
  const bool is_made = v.owner().at(v.id()).kind == node_kind::operation;
  return is_text && !is_made ? lamina::optional_value(v) : v;
}

converter_list text_converters() { return entries; }
converter_list machine_learning_text_converters() { return ml_entries; }

}  // namespace lamina::onnx
