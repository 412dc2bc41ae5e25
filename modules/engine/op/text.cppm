// Operations on strings. They run on the host, between plans: no plan has strings. What only moves elements moves positions:
// `take_strings` has the strings that stand there.
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

/// What becomes of letters.
export enum class case_change : std::int64_t { none, lower, upper };
/// How a string is split: at most `max` times; any number of times where it is negative.
struct string_split_attributes {
  std::int64_t max = -1;
  static constexpr void members(auto& a, auto&& f) { f("max", a.max); }
  bool operator==(const string_split_attributes&) const = default;
};
/// `change` is a `case_change`.
struct string_normalize_attributes {
  std::int64_t change = 0;
  bool is_case_sensitive = false;  ///< of the words that are left out
  static constexpr void members(auto& a, auto&& f) {
    f("change", a.change), f("is_case_sensitive", a.is_case_sensitive);
  }
  bool operator==(const string_normalize_attributes&) const = default;
};
/// The numbers that strings are read as.
struct string_number_attributes {
  dtype to = dtype::float32;
  static constexpr void members(auto& a, auto&& f) { f("to", a.to); }
  bool operator==(const string_number_attributes&) const = default;
};
/// Lengths of the n-grams that are counted, elements that may be left out between two of one, and how many numbers a row has.
struct tf_idf_attributes {
  std::int64_t shortest = 1, longest = 1, skips = 0, width = 0;
  bool counts = true;     ///< a number is how often its n-gram is found, else whether
  bool weighted = false;  ///< times a weight
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
// Elementwise, of two tensors of strings.
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
/// Operands: strings [C] or [1, C], and the words that are left out.
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
    else if (a.change < 0 || a.change > 2) out.why << "`change` is " << a.change << ", and 0, 1 or 2 is expected";
    else {
      if (s.rank == 2) s[0] = 1;
      s[s.rank - 1] = dyn;
      out.result(dtype::string, s);
    }
  }
  static void run(host_call&);
};
/// Positions of the last operand's elements, behind those of the operands before it.
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
/// Results: the rank of each string among the different ones, and those in order.
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
      out.why << "the pieces have one axis more than a tensor can have";
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
    if (!detail::are_printed(a.to)) out.why << "strings are read as float32, float64, bool and integers, not " << a.to;
    else out.result(a.to, in[0].dims);
  }
  static void run(host_call&);
};
/// Operands: tensors of strings, and int64 positions in all of them, one behind the other.
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
/// Operands: elements [C] or [N, C], strings or int64; the pool of n-grams, of the same type; where the n-grams of 1, 2, ...
/// elements begin in it, int64; the number that each n-gram counts for, int64; weights of the n-grams, float32.
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
    else if (a.width < 0 || a.width > std::int64_t(1) << 30) out.why << "rows of " << a.width << " numbers";
    else if (a.shortest < 1 || a.longest < a.shortest || a.skips < 0)
      out.why << "n-grams of " << a.shortest << " to " << a.longest << " elements that leave out " << a.skips;
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
// A program that has some is run by a session, in segments. Nothing here has a gradient. Strings are bytes, letters of more than
// one byte are UTF-8. Results of more than 2^31 bytes are refused by a value_error in a run. Operands of other types: type_error.

/// Each string with the one behind it that the other operand has.   Shapes: broadcast.
export value string_concat(const value& a, const value& b, const origin& = {});
/// Whether strings are equal, byte by byte.   Shapes: broadcast -> bool.
export value equal_strings(const value& a, const value& b, const origin& = {});
/// The last position of each string among `keys`, or -1.   Shapes: those of x -> int64.
export value find_strings(const value& x, const value& keys, const origin& = {});
/// The pieces between the delimiters, and how many there are. An empty delimiter stands for white space.
/// Shapes:  [...] -> [..., most pieces], of which those that are not there are empty; int64 [...].
export std::vector<value> string_split(const value& x, const value& delimiter, string_split_attributes a = {},
                                       const origin& = {});
/// The strings without `stopwords`, in the case that `change` says (ONNX StringNormalizer); one empty string where none is left.
/// Shapes:  [C] -> [n]; [1, C] -> [1, n].
export value string_normalize(const value& x, const value& stopwords, string_normalize_attributes a = {},
                              const origin& = {});
/// Whether all of a string matches a pattern of RE2's syntax, without assertions inside of it. Time is proportional to the
/// string times the pattern.   Errors: value_error for what is no pattern, or one that is too large.
export value regex_full_match(const value& x, const value& pattern, const origin& = {});
/// The numbers that strings spell.   Errors: value_error where a run finds a string that spells none.
export value string_to_number(const value& x, dtype to, const origin& = {});
/// Numbers as strings: as many digits as tell them apart; `NaN`, `INF`, `-INF`; of bool `1` and `0`.
export value number_to_string(const value& x, const origin& = {});
/// The positions of the strings, row by row, behind those of `before`.   Shapes: those of x -> int64.
export value string_positions(const value& x, view<const value> before = {}, const origin& = {});
/// The strings at positions among those of all `pools`, which share memory with them.   Shapes: those of the positions.
/// Errors:  value_error where a run finds a position outside.
export value take_strings(view<const value> pools, const value& positions, const origin& = {});
/// The rank of each string among the different ones, int64, and the different ones, in order.
export std::vector<value> string_ranks(const value& x, const origin& = {});
/// How often n-grams of a pool are found in rows (ONNX TfIdfVectorizer). Operands: those of `op::tf_idf`.
/// Shapes:  [C] -> [width]; [N, C] -> [N, width].
export value tf_idf(const value& x, const value& pool, const value& begins, const value& numbers, const value& weights,
                    tf_idf_attributes a, const origin& = {});

}  // namespace lamina
