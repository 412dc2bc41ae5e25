// Operations on strings. They run on the host, between plans: no plan has strings. Operations that only move elements
// move positions instead; `take_strings` then looks up the strings.
export module lamina:op.text;
import :any_value;
import :core;
import :dtype;
import :host;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Case conversion of letters.
export enum class case_change : std::int64_t { none, lower, upper };
/// A string is split at most `max` times; any number of times if `max` is negative.
struct string_split_attributes {
  std::int64_t max = -1;
  static constexpr void members(auto& a, auto&& f) { f("max", a.max); }
  bool operator==(const string_split_attributes&) const = default;
};
/// `change` is a `case_change`.
struct string_normalize_attributes {
  std::int64_t change = 0;
  bool is_case_sensitive = false;  ///< for comparison with the stopwords
  static constexpr void members(auto& a, auto&& f) {
    f("change", a.change), f("is_case_sensitive", a.is_case_sensitive);
  }
  bool operator==(const string_normalize_attributes&) const = default;
};
/// Element type of the parsed numbers.
struct string_number_attributes {
  dtype to = dtype::float32;
  static constexpr void members(auto& a, auto&& f) { f("to", a.to); }
  bool operator==(const string_number_attributes&) const = default;
};
/// Lengths of the counted n-grams, the maximum number of skipped elements between two of an n-gram, and the row width.
struct tf_idf_attributes {
  std::int64_t shortest = 1, longest = 1, skips = 0, width = 0;
  bool counts = true;     ///< a number is the count of its n-gram, else whether it occurs
  bool weighted = false;  ///< multiplied by a weight
  static constexpr void members(auto& a, auto&& f) {
    f("shortest", a.shortest), f("longest", a.longest), f("skips", a.skips), f("width", a.width), f("counts", a.counts),
        f("weighted", a.weighted);
  }
  bool operator==(const tf_idf_attributes&) const = default;
};

namespace detail {
constexpr bool are_strings(const tensor_type& t, inference& out) {
  if (t.is_tensor() && t.element == dtype::string) return true;
  out.of_elements = true;
  out.why << "a tensor of strings is expected";
  return false;
}
constexpr bool are_int64(const tensor_type& t, inference& out) {
  if (t.is_tensor() && t.element == dtype::int64) return true;
  out.of_elements = true;
  out.why << "a tensor of int64 is expected";
  return false;
}
constexpr bool are_printed(dtype t) {
  return t == dtype::float32 || t == dtype::float64 || t == dtype::boolean || t == dtype::int64 || t == dtype::int32 ||
         t == dtype::int16 || t == dtype::int8 || t == dtype::uint8 || t == dtype::uint64;
}
// Elementwise rule for two tensors of strings.
constexpr void infer_two_texts(view<const tensor_type> in, dtype element, inference& out) {
  if (are_strings(in[0], out) && are_strings(in[1], out)) infer_broadcast(in, element, out);
}
}  // namespace detail

namespace op {
struct equal_strings {
  static constexpr std::string_view name = "equal_strings";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_two_texts(in, dtype::boolean, out);
  }
  static void run(host_call&);
};
struct find_strings {
  static constexpr std::string_view name = "find_strings";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (detail::are_strings(in[0], out) && detail::are_strings(in[1], out)) out.result(dtype::int64, in[0].dims);
  }
  static void run(host_call&);
};
struct number_to_string {
  static constexpr std::string_view name = "number_to_string";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!in[0].is_tensor() || !detail::are_printed(in[0].element)) {
      out.refuse(in[0].element, "float32, float64, bool or an integer type", "float");
      return;
    }
    out.result(dtype::string, in[0].dims);
  }
  static void run(host_call&);
};
/// Operands: strings, and the pattern, one string.
struct regex_full_match {
  static constexpr std::string_view name = "regex_full_match";
  static constexpr int operands = 2;
  static constexpr bool may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (detail::are_strings(in[0], out) && detail::are_strings(in[1], out)) out.result(dtype::boolean, in[0].dims);
  }
  static void run(host_call&);
};
struct string_concat {
  static constexpr std::string_view name = "string_concat";
  static constexpr int operands = 2;
  static constexpr bool may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    detail::infer_two_texts(in, dtype::string, out);
  }
  static void run(host_call&);
};
/// Operands: strings [C] or [1, C], and the stopwords.
struct string_normalize {
  static constexpr std::string_view name = "string_normalize";
  static constexpr int operands = 2;
  static constexpr bool may_fail = true;
  using attributes = string_normalize_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::are_strings(in[0], out) || !detail::are_strings(in[1], out)) return;
    shape s = in[0].dims;
    if (s.rank < 1 || s.rank > 2 || (s.rank == 2 && !may_equal(s[0], 1)))
      out.why << "strings [C] or [1, C] are expected";
    else if (a.change < 0 || a.change > 2) out.why << "`change` is " << a.change << "; expected 0, 1 or 2";
    else {
      if (s.rank == 2) s[0] = 1;
      s[s.rank - 1] = dyn;
      out.result(dtype::string, s);
    }
  }
  static void run(host_call&);
};
/// Positions of the last operand's elements in the concatenation of all operands.
struct string_positions {
  static constexpr std::string_view name = "string_positions";
  static constexpr int operands = -1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    for (const auto& t : in)
      if (!detail::are_strings(t, out)) return;
    out.result(dtype::int64, in[in.size() - 1].dims);
  }
  static void run(host_call&);
};
/// Results: the rank of each string among the distinct ones, and the sorted distinct strings.
struct string_ranks {
  static constexpr std::string_view name = "string_ranks";
  static constexpr int operands = 1, results = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::are_strings(in[0], out)) return;
    out.result(dtype::int64, in[0].dims);
    out.result(dtype::string, {dyn});
  }
  static void run(host_call&);
};
/// Operands: strings, and the delimiter, one string.
struct string_split {
  static constexpr std::string_view name = "string_split";
  static constexpr int operands = 2, results = 2;
  static constexpr bool may_fail = true;
  using attributes = string_split_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::are_strings(in[0], out) || !detail::are_strings(in[1], out)) return;
    shape s = in[0].dims;
    if (s.rank == max_rank) {
      out.why << "the result would exceed the rank limit";
      return;
    }
    s.push_back(dyn);
    out.result(dtype::string, s);
    out.result(dtype::int64, in[0].dims);
  }
  static void run(host_call&);
};
struct string_to_number {
  static constexpr std::string_view name = "string_to_number";
  static constexpr int operands = 1;
  static constexpr bool may_fail = true;
  using attributes = string_number_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::are_strings(in[0], out)) return;
    if (!detail::are_printed(a.to)) out.why << "strings convert to float32, float64, bool and integers, not " << a.to;
    else out.result(a.to, in[0].dims);
  }
  static void run(host_call&);
};
/// Operands: tensors of strings, and int64 positions in their concatenation.
struct take_strings {
  static constexpr std::string_view name = "take_strings";
  static constexpr int operands = -1;
  static constexpr bool may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in.size() < 2) {
      out.why << "strings and positions are expected";
      return;
    }
    for (std::size_t i = 0; i + 1 < in.size(); ++i)
      if (!detail::are_strings(in[i], out)) return;
    if (detail::are_int64(in[in.size() - 1], out)) out.result(dtype::string, in[in.size() - 1].dims);
  }
  static void run(host_call&);
};
/// Operands: elements [C] or [N, C], strings or int64; the pool of n-grams, of the same type; the start in it of the
/// n-grams of 1, 2, ... elements, int64; the output column of each n-gram, int64; weights of the n-grams, float32.
struct tf_idf {
  static constexpr std::string_view name = "tf_idf";
  static constexpr int operands = 5;
  static constexpr bool may_fail = true;
  using attributes = tf_idf_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const auto are_elements = [](dtype t) { return t == dtype::string || t == dtype::int64; };
    const shape& s = in[0].dims;
    if (!in[0].is_tensor() || !in[1].is_tensor() || in[0].element != in[1].element || !are_elements(in[0].element)) {
      out.of_elements = true;
      out.why << "elements and a pool of them are expected, both strings or both int64";
    } else if (!detail::are_int64(in[2], out) || !detail::are_int64(in[3], out)) return;
    else if (!in[4].is_tensor() || in[4].element != dtype::float32)
      out.refuse(in[4].element, "weights of float32", "float");
    else if (s.rank > 2) out.why << "elements [C] or [N, C] are expected";
    else if (a.width < 0 || a.width > std::int64_t(1) << 30) out.why << "a row cannot have " << a.width << " numbers";
    else if (a.shortest < 1 || a.longest < a.shortest || a.skips < 0)
      out.why << "invalid n-grams: " << a.shortest << " to " << a.longest << " elements, skips " << a.skips;
    else out.result(dtype::float32, s.rank == 2 ? shape{s[0], dim(a.width)} : shape{dim(a.width)});
  }
  static void run(host_call&);
};
}  // namespace op

using text_operations = operation_list<op::equal_strings, op::find_strings, op::number_to_string, op::regex_full_match,
                                       op::string_concat, op::string_normalize, op::string_positions, op::string_ranks,
                                       op::string_split, op::string_to_number, op::take_strings, op::tf_idf>;
template <Operation Op> requires text_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

// ---- strings --------------------------------------------------------------------------------------------------------
//
// A session runs a program with strings, in segments. No operation has a gradient. Strings are bytes; letters of more
// than one byte are UTF-8. Results of more than 2^31 bytes are a value_error in a run. Other operands: type_error.

/// Concatenates the strings of two operands elementwise.   Shapes: broadcast.
export value string_concat(const value& a, const value& b, const origin& = {});
/// Whether strings are equal, byte by byte.   Shapes: broadcast -> bool.
export value equal_strings(const value& a, const value& b, const origin& = {});
/// The last position of each string among `keys`, or -1.   Shapes: that of x -> int64.
export value find_strings(const value& x, const value& keys, const origin& = {});
/// The pieces between the delimiters, and their number. An empty delimiter means white space.
/// Shapes:  [...] -> [..., largest number of pieces], filled up with empty strings; int64 [...].
export std::vector<value> string_split(const value& x, const value& delimiter, string_split_attributes a = {},
                                       const origin& = {});
/// The strings without `stopwords`, converted by `change` (ONNX StringNormalizer); one empty string if none is left.
/// Shapes:  [C] -> [n]; [1, C] -> [1, n].
export value string_normalize(const value& x, const value& stopwords, string_normalize_attributes a = {},
                              const origin& = {});
/// Whether a whole string matches a pattern in RE2's syntax, without assertions inside it. Time is proportional to
/// string size times pattern size.   Errors: value_error for an invalid pattern, or one that is too large.
export value regex_full_match(const value& x, const value& pattern, const origin& = {});
/// Parses strings as numbers.   Errors: value_error in a run with a string that is no number.
export value string_to_number(const value& x, dtype to, const origin& = {});
/// Formats numbers with the fewest digits that distinguish them; `NaN`, `INF`, `-INF`; bool as `1` and `0`.
export value number_to_string(const value& x, const origin& = {});
/// Row-major positions of the strings, after those of `before`.   Shapes: that of x -> int64.
export value string_positions(const value& x, view<const value> before = {}, const origin& = {});
/// The strings at positions in the concatenated `pools`, whose memory they share.   Shapes: that of the positions.
/// Errors:  value_error in a run with a position out of range.
export value take_strings(view<const value> pools, const value& positions, const origin& = {});
/// The rank of each string among the distinct ones, int64, and the sorted distinct strings.
export std::vector<value> string_ranks(const value& x, const origin& = {});
/// Counts of a pool's n-grams in rows (ONNX TfIdfVectorizer). Operands: those of `op::tf_idf`.
/// Shapes:  [C] -> [width]; [N, C] -> [N, width].
export value tf_idf(const value& x, const value& pool, const value& begins, const value& numbers, const value& weights,
                    tf_idf_attributes a, const origin& = {});

}  // namespace lamina
