// Valid operands for each operation, and hostile variations of operands and attributes. Include it
// after <map>, message.h and run_program.h.
#pragma once

namespace engine_test {

using lamina::attribute_value, lamina::axes, lamina::dtype, lamina::dyn, lamina::operation, lamina::shape,
    lamina::tensor_type;

using types = std::vector<tensor_type>;

inline tensor_type f(const shape& s) { return {dtype::float32, s}; }
inline tensor_type at(const shape& s) { return {dtype::int64, s}; }
inline tensor_type of(dtype t, const shape& s) { return {t, s}; }

inline tensor_type texts(const shape& s) { return {dtype::string, s}; }
inline tensor_type list_of(const shape& s) { return {dtype::float32, s, lamina::value_kind::sequence}; }
inline tensor_type maybe(const shape& s) { return {dtype::float32, s, lamina::value_kind::optional}; }

/// Operands that an operation accepts, and attributes that differ from its defaults.
struct sample_call {
  std::string_view name;
  types in;
  std::vector<std::pair<std::string_view, attribute_value>> attributes = {};
};
inline attribute_value integer(std::int64_t n) {
  attribute_value a;
  a.integer = n;
  return a;
}
inline attribute_value boolean(bool b) {
  attribute_value a;
  a.is = attribute_value::form::boolean;
  a.integer = b;
  return a;
}
inline attribute_value dims(const shape& s) {
  attribute_value a;
  a.is = attribute_value::form::dims;
  a.dims = s;
  return a;
}
inline attribute_value list(const axes& x) {
  attribute_value a;
  a.is = attribute_value::form::axes;
  a.list = x;
  return a;
}

inline const types of_products = {of(dtype::int8, {2, 3}), f({}), of(dtype::int8, {}), of(dtype::int8, {4, 3}), f({4}),
                                  of(dtype::int32, {4}),   f({}), of(dtype::int8, {})};
inline const types of_quantized_images = {
    of(dtype::int8, {1, 2, 5, 5}), f({}), of(dtype::int8, {}), of(dtype::int8, {3, 2, 3, 3}), f({3}),
    of(dtype::int32, {3}),         f({}), of(dtype::int8, {})};

inline const types of_two_quantized = {
    of(dtype::int8, {2, 3}), f({}), of(dtype::int8, {}), of(dtype::int8, {2, 3}), f({}),
    of(dtype::int8, {}),     f({}), of(dtype::int8, {})};

/// Examples for operations that do not accept float32 [2, 3] for each operand.
inline const std::vector<sample_call>& examples() {
  static const std::vector<sample_call> all = {
      {"arange", {f({}), f({}), f({})}},
      {"expand_to", {f({2, 1}), at({1})}},
      {"full", {at({2}), f({})}},
      {"pad_by", {f({2, 3}), at({2})}, {{"axes", list({1})}}},
      {"pad_by_grad", {f({2, 3}), f({2, 3}), at({0})}},
      {"reshape_to", {f({1}), at({1})}, {{"keep_zero", boolean(true)}}},
      {"slice_at", {f({2, 3}), at({1}), at({1})}, {{"axes", list({1})}}},
      {"slice_at_grad", {f({2, 3}), f({2, 3}), at({0}), at({0})}},
      {"tile_by", {f({2, 3}), at({2})}},
      {"affine_base", {at({4})}},
      {"block_positions", {at({0}), at({0})}},
      {"border_positions", {at({1}), at({2})}, {{"mode", integer(1)}}},
      {"center_borders", {at({2}), at({2})}},
      {"max_windows", {f({2, 3, 2}), at({2, 2})}, {{"axis", integer(1)}}},
      {"resample", {f({2, 3, 2}), at({4, 2}), f({4, 2})}, {{"axis", integer(1)}}},
      {"resample", {f({2, 3, 4}), at({2, 5, 2}), f({2, 5, 2})}, {{"axis", integer(2)}, {"batch_axes", integer(1)}}},
      {"resample_grad", {f({2, 4, 2}), at({4, 2}), f({4, 2}), f({2, 3, 2})}, {{"axis", integer(1)}}},
      {"resample_weight_grad", {f({2, 4, 2}), f({2, 3, 2}), at({4, 2})}, {{"axis", integer(1)}}},
      {"resize_inside", {at({2}), f({2})}, {{"which", integer(1)}}},
      {"resize_positions", {at({2}), at({2})}, {{"mode", integer(1)}}},
      {"resize_positions", {at({1}), at({1}), f({2})}, {{"coordinates", integer(6)}}},
      {"resize_weights", {at({1}), f({1})}, {{"mode", integer(2)}, {"antialias", boolean(true)}}},
      {"window_positions", {at({1})}, {{"kernel", integer(2)}, {"before", integer(1)}, {"after", integer(1)}}},
      {"window_weights", {at({1})}, {{"kernel", integer(2)}, {"before", integer(2)}, {"ceil", boolean(true)}}},
      {"as_matrix", {f({2, 3, 2})}, {{"leading", integer(1)}}},
      {"attention", {f({2, 3, 4}), f({2, 5, 4}), f({2, 5, 3})}},
      {"group_heads", {f({2, 6, 3, 4}), f({2, 3, 5, 4})}},
      {"attention", {f({2, 3, 4}), f({1, 5, 4}), f({1, 5, 3}), of(dtype::boolean, {3, 5})}},
      {"avg_pool2d", {f({1, 2, 4, 4})}},
      {"avg_pool2d_grad", {f({1, 2, 2, 2}), f({1, 2, 4, 4})}},
      {"broadcast_like", {f({3}), f({2, 3})}},
      {"cached_attention", {f({2, 3, 4}), f({2, 3, 4}), f({2, 3, 2}), f({2, 6, 4}), f({2, 6, 2}), at({1})}},
      {"bit_and", {at({2, 3}), at({3})}},
      {"bit_or", {at({2, 3}), at({3})}},
      {"bit_xor", {at({2, 3}), at({3})}},
      {"clamp", {f({2, 3}), f({}), f({3})}},
      {"computed_suppression", {f({4, 4}), f({4}), at({4}), at({}), f({}), f({1})}},
      {"computed_dft", {f({2, 4, 1}), at({}), at({1})}, {{"onesided", boolean(true)}}},
      {"computed_stft", {f({2, 6}), at({}), at({1}), f({3})}},
      {"mel_weights", {at({}), at({}), at({1}), f({}), f({1})}},
      {"concat", {f({2, 3}), f({1, 3})}},
      {"concat_part", {f({3, 3}), f({2, 3}), f({1, 3})}, {{"part", integer(1)}}},
      {"concat_sequence", {list_of({2, 3})}, {{"new_axis", boolean(true)}}},
      {"cond", {of(dtype::boolean, {}), f({2, 3})}},
      {"conv2d", {f({1, 2, 5, 5}), f({3, 2, 3, 3})}, {{"padding_h", integer(1)}}},
      {"conv2d_input_grad", {f({1, 3, 3, 3}), f({3, 2, 3, 3}), f({1, 2, 5, 5})}},
      {"conv2d_weight_grad", {f({1, 3, 3, 3}), f({1, 2, 5, 5}), f({3, 2, 3, 3})}},
      {"conv_transpose2d", {f({1, 3, 3, 3}), f({3, 2, 3, 3})}},
      {"block_linear",
       {f({2, 20}), of(dtype::uint8, {3, 2, 8}), f({3, 2}), f({})},
       {{"bits", integer(4)}, {"block", integer(16)}}},
      {"dequantize", {of(dtype::int8, {2, 3}), f({3}), of(dtype::int8, {3})}, {{"axis", integer(1)}}},
      {"dot_result", {f({6, 4}), f({2, 3, 5}), f({5, 4})}},
      {"truncate", {f({4, 3}), at({})}},
      {"gather", {f({5, 3}), at({2, 2})}},
      {"gather_nd", {f({5, 3}), at({4, 1})}, {{"coordinates", integer(1)}}},
      {"gather_nd", {f({2, 5, 3}), at({2, 4, 1})}, {{"batch_dims", integer(1)}, {"coordinates", integer(1)}}},
      {"gru_gates", {f({2, 9}), f({2, 9}), f({2, 3})}},
      {"gru_gates_grad", {f({2, 9}), f({2, 9}), f({2, 3}), f({2, 3})}},
      {"host_cond", {of(dtype::boolean, {}), f({2, 3})}},
      {"host_cond", {of(dtype::boolean, {}), list_of({2, 3})}},
      {"host_loop", {at({}), f({2, 3})}, {{"trips", boolean(true)}, {"carries", integer(1)}}},
      {"host_loop",
       {at({}), of(dtype::boolean, {}), f({2, 3})},
       {{"trips", boolean(true)}, {"condition", boolean(true)}, {"carries", integer(1)}}},
      {"layer_norm", {f({2, 3}), f({3}), f({3})}},
      {"logical_and", {of(dtype::boolean, {2, 3}), of(dtype::boolean, {3})}},
      {"logical_not", {of(dtype::boolean, {2, 3})}},
      {"logical_or", {of(dtype::boolean, {2, 3}), of(dtype::boolean, {3})}},
      {"logical_xor", {of(dtype::boolean, {2, 3}), of(dtype::boolean, {3})}},
      {"lstm_gates", {f({2, 12}), f({2, 3})}},
      {"lstm_gates_grad", {f({2, 12}), f({2, 3}), f({2, 3}), f({2, 3}), f({2, 3})}},
      {"matmul", {f({2, 3}), f({3, 4})}},
      {"matmul", {f({5, 2, 3}), f({3, 4})}},
      {"matmul", {at({2, 3}), at({3, 4})}},
      {"max_pool2d", {f({1, 2, 4, 4})}},
      {"max_pool2d", {of(dtype::int8, {1, 2, 4, 4})}},
      {"max_pool2d_grad", {f({1, 2, 2, 2}), of(dtype::int32, {1, 2, 2, 2}), f({1, 2, 4, 4})}},
      {"max_pool2d_grad",
       {f({1, 1, 2, 2}), of(dtype::int32, {1, 1, 2, 2}), f({1, 1, 5, 5})},
       {{"kernel_h", integer(3)}, {"stride_h", integer(2)}, {"kernel_w", integer(3)}, {"stride_w", integer(2)}}},
      {"non_max_suppression", {f({4, 4}), f({4}), at({4})}},
      {"non_max_suppression", {f({2, 4, 4}), f({2, 3, 4}), at({2, 3, 4})}},
      {"one_hot", {at({}), f({}), f({2, 3})}},
      {"optional_has_value", {maybe({2, 3})}},
      {"optional_none", {}, {{"dims", dims({2, 3})}, {"sequence", boolean(true)}}},
      {"optional_of", {list_of({2, 3})}},
      {"optional_value", {maybe({2, 3})}},
      {"order", {f({2, 3})}, {{"count", integer(2)}}},
      {"order", {f({2, 3}), f({2})}},
      {"pad", {f({2, 3})}, {{"before", integer(1)}, {"after", integer(2)}}},
      {"permute", {f({2, 3})}, {{"order", list({1, 0})}}},
      {"require_finite", {f({}), f({2, 3})}},
      {"pick", {f({2, 3}), at({2})}},
      {"pick_label", {f({2, 3}), at({2})}},
      {"integer_conv2d", {of(dtype::int8, {1, 2, 4, 4}), of(dtype::int8, {}), of(dtype::int8, {3, 2, 3, 3})}},
      {"integer_matmul",
       {of(dtype::int8, {2, 2, 3}), of(dtype::int8, {}), of(dtype::int8, {3, 4}), of(dtype::int8, {})}},
      {"integer_linear", {of(dtype::int8, {2, 3}), of(dtype::int8, {}), of(dtype::int8, {4, 3})}},
      {"pick_label_grad", {f({2}), at({2}), f({2, 3})}},
      {"put_along_axis", {f({4, 3}), at({2, 3}), f({2, 3})}, {{"reduction", integer(1)}}},
      {"put_rows", {f({4, 3}), at({2}), f({2, 3})}},
      {"quantize", {f({2, 3}), f({}), of(dtype::int8, {})}},
      {"quantized_add", of_two_quantized},
      {"quantized_avg_pool2d", {of(dtype::int8, {1, 2, 4, 4}), f({}), of(dtype::int8, {}), f({}), of(dtype::int8, {})}},
      {"quantized_conv2d", of_quantized_images},
      {"quantized_linear", of_products},
      {"quantized_matmul", of_two_quantized, {{"transpose_b", boolean(true)}}},
      {"quantized_multiply", of_two_quantized},
      {"quantized_table", {of(dtype::int8, {2, 3}), of(dtype::int8, {256})}},
      {"random_normal", {at({2}), f({2, 3})}},
      {"random_uniform", {at({2}), f({2, 3})}},
      {"reduce_by", {f({2, 3}), at({1})}, {{"kind", integer(3)}}},
      {"running_along", {f({2, 3}), at({})}, {{"reverse", boolean(true)}}},
      {"running_along", {f({2, 3}), at({1})}, {{"product", boolean(true)}}},
      {"reduce_all", {of(dtype::boolean, {2, 3})}},
      {"reduce_any", {of(dtype::boolean, {2, 3})}},
      {"repeat", {f({2, 3})}, {{"count", integer(2)}, {"axis", integer(1)}}},
      {"repeat_like", {f({2, 3}), f({4, 3})}},
      {"reshape", {f({2, 3})}, {{"to", dims({3, dyn})}}},
      {"reshape_like", {f({2, 3}), f({6})}},
      {"rms_norm", {f({2, 3}), f({3})}},
      {"rope", {f({2, 3, 4}), at({3})}},
      {"rotary_embedding", {f({2, 3, 4}), f({3, 4}), f({3, 4})}},
      {"scatter_nd", {f({4, 3}), at({2, 1}), f({2, 3})}, {{"reduction", integer(2)}, {"coordinates", integer(1)}}},
      {"shift_left", {at({2, 3}), at({3})}},
      {"shift_right", {at({2, 3}), at({3})}},
      {"scatter_elements", {f({2, 2}), at({2, 2}), f({3, 2})}},
      {"scatter_rows", {f({2, 3}), at({2}), f({4, 3})}},
      {"select", {f({2, 3})}, {{"index", integer(1)}}},
      {"sequence_at", {list_of({2, 3}), at({})}},
      {"sequence_empty", {}, {{"dims", dims({2, 3})}}},
      {"sequence_erase", {list_of({2, 3}), at({})}},
      {"sequence_insert", {list_of({2, 3}), f({2, 3}), at({})}},
      {"sequence_length", {list_of({2, 3})}},
      {"sequence_map", {list_of({2, 3}), f({2, 3})}},
      {"split_to_sequence", {f({4, 3})}, {{"axis", integer(1)}, {"keepdims", boolean(false)}}},
      {"equal_strings", {texts({2, 3}), texts({3})}},
      {"find_strings", {texts({2, 3}), texts({4})}},
      {"regex_full_match", {texts({2, 3}), texts({})}},
      {"string_concat", {texts({2, 3}), texts({3})}},
      {"string_normalize", {texts({1, 3}), texts({1})}, {{"change", integer(1)}}},
      {"string_positions", {texts({2}), texts({2, 3})}},
      {"string_ranks", {texts({2, 3})}},
      {"string_split", {texts({2, 3}), texts({})}, {{"most", integer(1)}}},
      {"string_to_number", {texts({2, 3})}},
      {"take_strings", {texts({2}), texts({3}), at({2, 2})}},
      {"tf_idf", {at({2, 3}), at({2}), at({1}), at({2}), f({2})}, {{"width", integer(2)}}},
      {"tf_idf",
       {texts({3}), texts({2}), at({1}), at({2}), f({2})},
       {{"width", integer(2)}, {"weighted", boolean(true)}}},
      {"slice", {f({4, 3})}, {{"start", integer(1)}, {"stop", integer(3)}}},
      {"split", {f({4, 3})}, {{"start", integer(1)}, {"count", integer(2)}, {"whole", integer(4)}}},
      {"split_evenly", {f({4, 3})}, {{"part", integer(1)}, {"parts", integer(2)}}},
      {"spread", {f({2}), f({2, 3})}, {{"axes", list({1})}}},
      {"spread_mean", {f({2}), f({2, 3})}, {{"axes", list({1})}}},
      {"squeeze", {f({2, 1, 3})}, {{"axes", list({1})}}},
      {"sum_like", {f({2, 3}), f({3})}},
      {"sum_rows_alike", {f({2, 3}), at({2}), f({4, 3})}},
      {"take_along_axis", {f({3, 2}), at({2, 2})}},
      {"tile", {f({2, 3})}, {{"repeats", dims({2, 1})}}},
      {"tile_like", {f({2, 3}), f({4, 3})}},
      {"tile_to", {f({2, 3})}, {{"to", dims({4, 3})}}},
      {"to_one_hot", {at({2})}, {{"depth", integer(3)}}},
      {"unique", {f({4}), at({4})}},
      {"split_grad", {f({2, 3}), f({4, 3})}, {{"part", integer(1)}, {"parts", integer(2)}}},
      {"pick_grad", {f({2}), at({2}), f({2, 3})}},
      {"repeat_grad", {f({4, 3}), f({2, 3})}},
      {"slice_grad", {f({2, 3}), f({4, 3})}, {{"start", integer(1)}, {"stop", integer(3)}}},
      {"unsqueeze", {f({2, 3})}, {{"axes", list({1})}}},
      {"tile_grad", {f({4, 3}), f({2, 3})}},
      {"where", {of(dtype::boolean, {2, 3}), f({2, 3}), f({3})}},
  };
  return all;
}
/// Not thread-safe.
inline const std::vector<sample_call>& examples_of(const operation& op) {
  static std::map<std::string_view, std::vector<sample_call>> known;
  auto& found = known[op.name];
  if (!found.empty()) return found;
  for (const auto& e : examples())
    if (e.name == op.name) found.push_back(e);
  if (found.empty()) found.push_back({op.name, types(static_cast<std::size_t>(std::max(op.operands, 1)), f({2, 3}))});
  return found;
}
inline std::shared_ptr<const void> attributes_of(const operation& op, const sample_call& e) {
  return op.visit(nullptr, [&](std::string_view name, attribute_value& a) {
    for (const auto& [given, v] : e.attributes)
      if (given == name) a = v;
  });
}

inline constexpr std::int64_t odd_numbers[] = {0,
                                               1,
                                               -1,
                                               2,
                                               3,
                                               5,
                                               -8,
                                               8,
                                               100,
                                               std::numeric_limits<std::int32_t>::max(),
                                               std::int64_t(1) << 40,
                                               std::numeric_limits<std::int64_t>::max(),
                                               std::numeric_limits<std::int64_t>::min()};
inline constexpr double odd_reals[] = {
    0, 1, -1, 0.5, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
inline const shape odd_shapes[] = {
    {},     {0},    {1},      {4},       {512},        {2, 3},       {3, 2},       {1, 1},
    {0, 3}, {2, 0}, {64, 96}, {2, 3, 4}, {1, 2, 4, 4}, {1, 2, 2, 2}, {2, 0, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 2}};

inline shape changed(shape s, number_source& random) {
  if (s.rank == 0 || random.below(3) == 0) return odd_shapes[random.below(std::size(odd_shapes))];
  auto& extent = s[static_cast<int>(random.below(static_cast<std::size_t>(s.rank)))];
  extent = std::max<std::int64_t>(extent.code + static_cast<std::int64_t>(random.below(4)) - 1, 0);
  return s;
}
inline void change(attribute_value& a, number_source& random) {
  using form = attribute_value::form;
  if (a.is == form::integer) a.integer = odd_numbers[random.below(std::size(odd_numbers))];
  else if (a.is == form::real) a.real = odd_reals[random.below(std::size(odd_reals))];
  else if (a.is == form::boolean) a.integer = !a.integer;
  else if (a.is == form::element) a.element = static_cast<dtype>(random.below(lamina::dtype_count));
  else if (a.is == form::dims) a.dims = changed(a.dims, random);
  else {
    a.list = axes();
    for (auto n = random.below(4); n-- > 0;)
      a.list.values[a.list.count++] = static_cast<std::int32_t>(random.below(12)) - 5;
  }
}
// Operands and attributes after one to three random changes.
struct variant {
  types in;
  std::shared_ptr<const void> attributes;
};
inline variant varied(const operation& op, const sample_call& e, number_source& random) {
  variant v{e.in, nullptr};
  std::size_t count = 0, chosen = 0, k = 0;
  op.visit(nullptr, [&](std::string_view, attribute_value&) { ++count; });
  auto attributes = attributes_of(op, e);
  for (auto times = 1 + random.below(3); times-- > 0;) {
    tensor_type none;
    auto& operand = v.in.empty() ? none : v.in[random.below(v.in.size())];
    switch (v.in.empty() ? 3 : random.below(count ? 5 : 3)) {
      case 0: operand.dims = changed(operand.dims, random); break;
      case 1:
        operand.element = static_cast<dtype>(random.below(lamina::dtype_count));
        if (op.takes_kinds && random.below(2)) operand.kind = static_cast<lamina::value_kind>(random.below(4));
        break;
      case 2:
        if (op.operands >= 0) operand = v.in[random.below(v.in.size())];
        else if (random.below(2)) v.in.push_back(operand);
        else if (v.in.size() > 1) v.in.pop_back();
        break;
      default:
        if (count == 0) break;
        chosen = random.below(count), k = 0;
        // A number beyond the attribute's type already fails here.
        message_of([&] {
          attributes = op.visit(attributes.get(), [&](std::string_view, attribute_value& a) {
            if (k++ == chosen) change(a, random);
          });
        });
    }
  }
  v.attributes = std::move(attributes);
  return v;
}

}  // namespace engine_test
