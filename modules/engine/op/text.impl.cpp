module;
#include <charconv>
#include <system_error>
module lamina:op.text.impl;
import :any_value;
import :core;
import :dtype;
import :host;
import :io;
import :op;
import :op.text;
import :program;
import :shape;
import :stop;
import :tensor;
import :unicode;
import lamina.std;

namespace lamina {

namespace {

using detail::changed_case;
using detail::next_code;
using strings = view<const std::string_view>;
constexpr std::size_t max_bytes = std::size_t(1) << 31;

strings strings_of(const host_call& c, std::size_t i) { return c.tensor(i).elements<std::string_view>(); }

// Limits the memory of a result. Errors: value_error.
class budget {
 public:
  explicit budget(const host_call& c) : c_(c) {}
  void add(std::size_t bytes, std::size_t times = 1) {
    std::size_t more = 0;
    if (!__builtin_mul_overflow(bytes, times, &more) && more <= max_bytes - used_) {
      used_ += more;
      return;
    }
    c_.fail(error_kind::value, text() << "the strings of a result take more than " << max_bytes << " bytes");
  }

 private:
  const host_call& c_;
  std::size_t used_ = 0;
};

// A tensor of string views that keeps their sources alive.
any_tensor of_views(const shape& s, std::vector<std::string_view> all, std::vector<any_tensor> sources) {
  struct kept {
    std::vector<std::string_view> all;
    std::vector<any_tensor> sources;
  };
  auto held = std::make_shared<kept>(kept{std::move(all), std::move(sources)});
  const void* const first = held->all.data();
  const std::size_t bytes = held->all.size() * sizeof(std::string_view);
  return any_tensor(storage::borrowed(first, bytes, std::move(held)), {dtype::string, s});
}
template <class T> any_tensor of_numbers(const shape& s, const std::vector<T>& all) {
  any_tensor made(tensor_type{dtype_of<T>, s});
  if (!all.empty()) std::memcpy(made.mutable_data(), all.data(), all.size() * sizeof(T));
  return made;
}
// The only string of an operand.
std::string_view single(const host_call& c, std::size_t i) {
  const strings all = strings_of(c, i);
  if (all.size() == 1) return all[0];
  c.fail(error_kind::value, text() << "operand " << i << " holds " << all.size() << " strings; expected one");
}

// Iterates over a broadcast of two shapes: f(position in a, position in b).
template <class F> shape each_pair(const host_call& c, const F& f) {
  const shape a = c.tensor(0).shape(), b = c.tensor(1).shape();
  shape s;
  if (!broadcast(a, b, s) || !s.countable())
    c.fail(error_kind::shape, text() << "the shapes " << a << " and " << b << " do not broadcast");
  std::int64_t step_a[max_rank] = {}, step_b[max_rank] = {}, at[max_rank] = {};
  const auto steps = [&](const shape& of, std::int64_t* to) {
    std::int64_t step = 1;
    for (int i = of.rank; i-- > 0; step *= of.at(i)) to[s.rank - of.rank + i] = of.at(i) == 1 ? 0 : step;
  };
  steps(a, step_a), steps(b, step_b);
  std::int64_t ia = 0, ib = 0;
  for (std::int64_t n = s.size(); n > 0; --n) {
    f(static_cast<std::size_t>(ia), static_cast<std::size_t>(ib));
    for (int i = s.rank; i-- > 0;) {
      ia += step_a[i], ib += step_b[i];
      if (++at[i] < s.at(i)) break;
      ia -= step_a[i] * s.at(i), ib -= step_b[i] * s.at(i);
      at[i] = 0;
    }
  }
  return s;
}

}  // namespace

// ---- strings of strings ---------------------------------------------------------------------------------------------

void op::string_concat::run(host_call& c) {
  const strings a = strings_of(c, 0), b = strings_of(c, 1);
  budget left(c);
  std::vector<std::string> all;
  const shape s = each_pair(c, [&](std::size_t i, std::size_t k) {
    left.add(a[i].size() + b[k].size() + sizeof(std::string));
    all.emplace_back(a[i]).append(b[k]);
  });
  c.result(0, any_tensor::of_strings(s, all));
}

void op::equal_strings::run(host_call& c) {
  const strings a = strings_of(c, 0), b = strings_of(c, 1);
  std::vector<std::uint8_t> all;
  budget left(c);
  const shape s = each_pair(c, [&](std::size_t i, std::size_t k) {
    left.add(1);
    all.push_back(a[i] == b[k]);
  });
  any_tensor made(tensor_type{dtype::boolean, s});
  if (!all.empty()) std::memcpy(made.mutable_data(), all.data(), all.size());
  c.result(0, std::move(made));
}

void op::find_strings::run(host_call& c) {
  const strings x = strings_of(c, 0), keys = strings_of(c, 1);
  std::unordered_map<std::string_view, std::int64_t> known;
  for (std::size_t i = 0; i < keys.size(); ++i) known[keys[i]] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> all;
  for (const auto& s : x) {
    const auto at = known.find(s);
    all.push_back(at == known.end() ? -1 : at->second);
  }
  c.result(0, of_numbers(c.tensor(0).shape(), all));
}

void op::string_positions::run(host_call& c) {
  const std::size_t last = c.operands().size() - 1;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < last; ++i) first += static_cast<std::int64_t>(strings_of(c, i).size());
  std::vector<std::int64_t> all(strings_of(c, last).size());
  std::iota(all.begin(), all.end(), first);
  c.result(0, of_numbers(c.tensor(last).shape(), all));
}

void op::take_strings::run(host_call& c) {
  const std::size_t last = c.operands().size() - 1;
  std::vector<std::string_view> pool, all;
  std::vector<any_tensor> sources;
  for (std::size_t i = 0; i < last; ++i) {
    const strings s = strings_of(c, i);
    pool.insert(pool.end(), s.begin(), s.end());
    sources.push_back(c.tensor(i));
  }
  const any_tensor& positions = c.tensor(last);
  budget left(c);
  left.add(sizeof(std::string_view), static_cast<std::size_t>(positions.shape().size()));
  for (const std::int64_t i : positions.elements<std::int64_t>()) {
    if (i < 0 || static_cast<std::uint64_t>(i) >= pool.size())
      c.fail(error_kind::value, text() << "position " << i << " is outside the " << pool.size() << " strings");
    all.push_back(pool[static_cast<std::size_t>(i)]);
  }
  c.result(0, of_views(positions.shape(), std::move(all), std::move(sources)));
}

void op::string_ranks::run(host_call& c) {
  const strings x = strings_of(c, 0);
  std::vector<std::string_view> different(x.begin(), x.end());
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  std::vector<std::int64_t> all;
  for (const auto& s : x) all.push_back(std::lower_bound(different.begin(), different.end(), s) - different.begin());
  const auto count = static_cast<std::int64_t>(different.size());
  c.result(0, of_numbers(c.tensor(0).shape(), all));
  c.result(1, of_views({dim(count)}, std::move(different), {c.tensor(0)}));
}

namespace {
constexpr std::string_view white = " \t\n\v\f\r";
void split_at_white(std::string_view s, std::int64_t max, std::vector<std::string_view>& to) {
  const auto skip = [&] { s.remove_prefix(std::min(s.find_first_not_of(white), s.size())); };
  for (skip(); !s.empty(); skip()) {
    const std::size_t end = max == 0 ? s.size() : std::min(s.find_first_of(white), s.size());
    to.push_back(s.substr(0, end));
    s.remove_prefix(end);
    if (max > 0) --max;
  }
}
void split_at(std::string_view s, std::string_view delimiter, std::int64_t max, std::vector<std::string_view>& to) {
  if (delimiter.empty()) return split_at_white(s, max, to);
  if (s.empty()) return;
  for (;; max = max > 0 ? max - 1 : max) {
    const std::size_t end = max == 0 ? std::string_view::npos : s.find(delimiter);
    to.push_back(s.substr(0, end));
    if (end == std::string_view::npos) return;
    s.remove_prefix(end + delimiter.size());
  }
}
}  // namespace

void op::string_split::run(host_call& c) {
  const strings x = strings_of(c, 0);
  const std::string_view delimiter = single(c, 1);
  const auto& a = c.attributes<string_split_attributes>();
  budget left(c);
  std::vector<std::string_view> pieces;
  std::vector<std::int64_t> counts;
  std::size_t max = 0;
  for (const auto& s : x) {
    const std::size_t before = pieces.size();
    split_at(s, delimiter, a.max, pieces);
    left.add(sizeof(std::string_view), pieces.size() - before);
    counts.push_back(static_cast<std::int64_t>(pieces.size() - before));
    max = std::max(max, pieces.size() - before);
  }
  budget(c).add(max * sizeof(std::string_view), x.size());
  std::vector<std::string_view> all;
  all.reserve(max * x.size());
  auto piece = pieces.begin();
  for (const std::int64_t n : counts) {
    all.insert(all.end(), piece, piece + n);
    piece += n;
    all.resize(all.size() + max - static_cast<std::size_t>(n), std::string_view(""));
  }
  shape s = c.tensor(0).shape();
  const any_tensor totals = of_numbers(s, counts);
  s.push_back(dim(static_cast<std::int64_t>(max)));
  c.result(0, of_views(s, std::move(all), {c.tensor(0)}));
  c.result(1, totals);
}

void op::string_normalize::run(host_call& c) {
  const auto& a = c.attributes<string_normalize_attributes>();
  const auto change = static_cast<case_change>(a.change);
  const auto compared = [&](std::string_view s) {
    return a.is_case_sensitive ? std::string(s) : changed_case(s, true);
  };
  std::set<std::string> stops;
  for (const auto& s : strings_of(c, 1)) stops.insert(compared(s));
  shape s = c.tensor(0).shape();
  if (s.rank == 2 && s.at(0) != 1)
    c.fail(error_kind::shape, text() << "operand 0 is " << s << "; expected [C] or [1, C]");
  std::vector<std::string> all;
  budget left(c);
  for (const auto& x : strings_of(c, 0)) {
    if (!stops.empty() && stops.contains(compared(x))) continue;
    left.add(2 * x.size() + sizeof(std::string));
    all.push_back(change == case_change::none ? std::string(x) : changed_case(x, change == case_change::lower));
  }
  if (all.empty()) all.emplace_back();
  s[s.rank - 1] = dim(static_cast<std::int64_t>(all.size()));
  c.result(0, any_tensor::of_strings(s, all));
}

// ---- numbers --------------------------------------------------------------------------------------------------------

namespace {
// `std::from_chars`, which libc++ 19 lacks for real numbers.
template <class T> std::from_chars_result parse(const char* first, const char* last, T& to) {
#ifndef __cpp_lib_to_chars
  if constexpr (std::is_floating_point_v<T>) {
    const std::string_view s(first, last);
    if (const auto v = number_in(s)) return to = static_cast<T>(*v), std::from_chars_result{last, std::errc()};
    std::size_t e = s.find_first_of("eE"), digits = e + 1;
    if (e == s.npos || !number_in(s.substr(0, e))) return {first, std::errc::invalid_argument};
    if (digits < s.size() && (s[digits] == '-' || s[digits] == '+')) ++digits;
    const bool exponent = digits < s.size() && s.find_first_not_of("0123456789", digits) == s.npos;
    return {exponent ? last : first, exponent ? std::errc::result_out_of_range : std::errc::invalid_argument};
  } else
#endif
    return std::from_chars(first, last, to);
}
template <class T> std::string text_of(T v) {
  if constexpr (std::is_same_v<T, bool>) return v ? "1" : "0";
  else if constexpr (std::is_integral_v<T>) return std::to_string(v);
  else {
    if (std::isnan(v)) return "NaN";
    if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
    constexpr int max = std::numeric_limits<T>::max_digits10;
    char digits[40];
    for (int n = std::max(std::numeric_limits<T>::digits10, 8);; ++n) {
      const auto end = std::to_chars(digits, digits + sizeof digits, v, std::chars_format::general, n).ptr;
      T back{};
      parse(digits, end, back);
      if (back == v || n == max) return std::string(digits, end);
    }
  }
}
// Parses a number; false unless it is the whole string.
template <class T> bool read_number(std::string_view s, T& to) {
  while (!s.empty() && white.find(s.front()) != std::string_view::npos) s.remove_prefix(1);
  while (!s.empty() && white.find(s.back()) != std::string_view::npos) s.remove_suffix(1);
  if (s.starts_with('+') && s.size() > 1 && s[1] != '-' && s[1] != '+') s.remove_prefix(1);
  const char *const begin = s.data(), *const end = begin + s.size();
  if constexpr (std::is_same_v<T, bool>) {
    double v = 0;
    const std::string low = changed_case(s, true);
    if (low == "true" || low == "false") return to = low == "true", true;
    if (!read_number(s, v)) return false;
    return to = v != 0, true;
  } else {
    const auto [at, why] = parse(begin, end, to);
    if (at == end && why == std::errc()) return !s.empty();
    if constexpr (std::is_floating_point_v<T>) {  // out of range: rounds to infinity or 0
      if (at != end || why != std::errc::result_out_of_range) return false;
      const double v = std::strtod(std::string(s).c_str(), nullptr);
      return to = static_cast<T>(v), true;
    } else {  // truncates a fraction
      double v = 0;
      if (why == std::errc::result_out_of_range || !read_number(s, v)) return false;
      return detail::to_element(std::trunc(v), to);
    }
  }
}
}  // namespace

void op::number_to_string::run(host_call& c) {
  std::vector<std::string> all;
  with_type(c.tensor(0).element(), [&]<class T>() {
    if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>)
      for (const T v : c.tensor(0).elements<T>()) all.push_back(text_of(v));
  });
  c.result(0, any_tensor::of_strings(c.tensor(0).shape(), all));
}

void op::string_to_number::run(host_call& c) {
  const strings x = strings_of(c, 0);
  const dtype to = c.attributes<string_number_attributes>().to;
  any_tensor made(tensor_type{to, c.tensor(0).shape()});
  with_type(to, [&]<class T>() {
    if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>)
      for (std::size_t i = 0; i < x.size(); ++i) {
        T v{};
        if (!read_number(x[i], v))
          c.fail(error_kind::value,
                 text() << "element " << i << ", `" << printable(x[i], 64) << "`, cannot be read as " << to);
        std::memcpy(made.mutable_data() + i * sizeof v, &v, sizeof v);
      }
  });
  c.result(0, std::move(made));
}

// ---- patterns -------------------------------------------------------------------------------------------------------

namespace {
using code_ranges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// An NFA whose states are simulated in parallel: matching takes at most its size times the string's length.
struct machine {
  enum class kind : std::uint8_t { letter, fork, jump, begin, end, done, boundary, no_boundary };
  struct state {
    kind is;
    std::size_t next = 0, other = 0;
    std::size_t letters = 0;  // index in `sets`
  };
  std::vector<state> states;
  std::vector<code_ranges> sets;
};
constexpr std::size_t max_states = 1 << 14, max_depth = 100, max_pattern = 1 << 16;
constexpr std::uint32_t last_code = 0xFFFFFFFF;

code_ranges all_but(code_ranges r) {
  std::sort(r.begin(), r.end());
  code_ranges made;
  std::uint64_t at = 0;
  for (const auto& [from, to] : r) {
    if (from > at) made.emplace_back(static_cast<std::uint32_t>(at), from - 1);
    at = std::max<std::uint64_t>(at, std::uint64_t(to) + 1);
  }
  if (at <= last_code) made.emplace_back(static_cast<std::uint32_t>(at), last_code);
  return made;
}

class pattern_reader {
 public:
  pattern_reader(const host_call& c, std::string_view pattern) : c_(c), left_(pattern), whole_(pattern) {}
  machine read() {
    if (whole_.size() > max_pattern) fail("is longer than 65536 bytes");
    alternatives(0);
    if (!left_.empty()) fail("has an unmatched `)`");
    add({machine::kind::done});
    return std::move(made_);
  }

 private:
  using kind = machine::kind;
  [[noreturn]] void fail(std::string_view why) const {
    c_.fail(error_kind::value, text() << "the pattern `" << printable(whole_, 200) << "` " << why);
  }
  std::size_t here() const { return made_.states.size(); }
  std::size_t add(machine::state s) {
    if (here() >= max_states) fail("needs more than 16384 states");
    if (s.is != kind::fork && s.is != kind::jump) s.next = here() + 1;
    made_.states.push_back(s);
    return here() - 1;
  }
  void add_letters(code_ranges r) {
    if (fold_)
      for (std::size_t i = 0, n = r.size(); i < n; ++i)
        for (std::uint64_t k = r[i].first; k <= r[i].second && k < 0x600; ++k)
          for (const bool lower : {true, false})
            if (const auto to = changed_case(static_cast<std::uint32_t>(k), lower); to != k) r.emplace_back(to, to);
    machine::state s{kind::letter};
    s.letters = made_.sets.size();
    made_.sets.push_back(std::move(r));
    add(s);
  }
  bool take(std::string_view s) {
    if (!left_.starts_with(s)) return false;
    left_.remove_prefix(s.size());
    return true;
  }
  // Inserts a state before those from `at` on, which move.
  void insert(std::size_t at, machine::state s) {
    add({kind::jump});
    auto& all = made_.states;
    for (std::size_t i = here() - 1; i > at; --i) {
      all[i] = all[i - 1];
      ++all[i].next;
      if (all[i].is == kind::fork) ++all[i].other;
    }
    all[at] = s;
  }

  void alternatives(std::size_t depth) {
    if (depth > max_depth) fail("is nested deeper than 100");
    const std::size_t first = here();
    std::size_t from = first;
    std::vector<std::size_t> ends;
    sequence(depth);
    while (take("|")) {
      insert(from, {kind::fork});
      ends.push_back(add({kind::jump}));
      made_.states[from].next = from + 1;
      made_.states[from].other = here();
      from = here();
      sequence(depth);
    }
    for (auto e : ends) made_.states[e].next = here();
  }
  void sequence(std::size_t depth) {
    while (!left_.empty() && left_[0] != '|' && left_[0] != ')') {
      const std::size_t from = here();
      atom(depth);
      while (!left_.empty() && repeat(from)) {}
    }
  }
  // Parses the repetition after an atom; returns whether there is one.
  bool repeat(std::size_t from) {
    std::size_t least = 0, max = static_cast<std::size_t>(-1);
    if (take("*")) {
    } else if (take("+")) least = 1;
    else if (take("?")) max = 1;
    else if (!bounds(least, max)) return false;
    take("?");  // a lazy match accepts the same strings
    const std::vector<machine::state> body(made_.states.begin() + static_cast<std::ptrdiff_t>(from),
                                           made_.states.end());
    made_.states.resize(from);
    const bool open = max == static_cast<std::size_t>(-1);
    const auto copy = [&] {
      const std::size_t shift = here() - from;
      for (auto s : body) {
        if (here() >= max_states) fail("needs more than 16384 states");
        s.next += shift, s.other += shift;
        made_.states.push_back(s);
      }
    };
    std::size_t last = from;
    for (std::size_t i = 0; i < least; ++i) last = here(), copy();
    std::vector<std::size_t> forks;
    if (open && least > 0) {
      const std::size_t again = add({kind::fork});
      made_.states[again].next = last;
      made_.states[again].other = here();
      return true;
    }
    for (std::size_t i = least; i < (open ? least + 1 : max); ++i) {
      forks.push_back(add({kind::fork}));
      made_.states.back().next = here();
      copy();
    }
    if (open) {
      add({kind::jump});
      made_.states.back().next = forks[0];
    }
    for (auto f : forks) made_.states[f].other = here();
    return true;
  }
  bool number(std::string_view& s, std::size_t& to) const {
    std::size_t digits = 0;
    for (to = 0; !s.empty() && s[0] >= '0' && s[0] <= '9'; ++digits, s.remove_prefix(1)) {
      to = to * 10 + static_cast<std::size_t>(s[0] - '0');
      if (to > 1000) fail("repeats more than 1000 times");
    }
    return digits > 0;
  }
  bool bounds(std::size_t& least, std::size_t& max) {
    std::string_view s = left_;
    if (!s.starts_with('{')) return false;
    s.remove_prefix(1);
    if (!number(s, least)) return false;
    if (s.starts_with(',')) {
      s.remove_prefix(1);
      if (std::size_t n = 0; number(s, n)) max = n;
    } else max = least;
    if (!s.starts_with('}')) return false;
    if (max < least) fail("has a {min,max} with min > max");
    left_ = s.substr(1);
    return true;
  }

  void group(std::size_t depth) {
    const bool outer = fold_;
    if (take("?")) {
      if (take("P<") || take("<")) {
        const std::size_t end = left_.find('>');
        if (end == std::string_view::npos || left_[0] == '=' || left_[0] == '!') fail("has an unknown group");
        left_.remove_prefix(end + 1);
      } else {
        bool on = true;
        for (; !left_.empty() && left_[0] != ':' && left_[0] != ')'; left_.remove_prefix(1)) {
          if (left_[0] == '-') on = false;
          else if (left_[0] == 'i') fold_ = on;
          else if (left_[0] == 's') dot_all_ = on;
          else fail("has an unknown group");
        }
        if (take(")")) return;  // until the enclosing group ends
        if (!take(":")) fail("has an unclosed group");
      }
    }
    alternatives(depth + 1);
    if (!take(")")) fail("has an unclosed group");
    fold_ = outer;
  }
  void atom(std::size_t depth) {
    if (take("(")) return group(depth);
    if (take("[")) return add_letters(set());
    if (take(".")) return add_letters(dot_all_ ? code_ranges{{0, last_code}} : all_but({{'\n', '\n'}}));
    if (take("^") || take("\\A")) return void(add({kind::begin}));
    if (take("$") || take("\\z")) return void(add({kind::end}));
    if (take("\\b")) return void(add({kind::boundary}));
    if (take("\\B")) return void(add({kind::no_boundary}));
    if (left_[0] == '*' || left_[0] == '+' || left_[0] == '?') fail("has nothing to repeat");
    if (take("\\")) return add_letters(escaped());
    const std::uint32_t code = next_code(left_);
    add_letters({{code, code}});
  }
  code_ranges escaped() {
    if (left_.empty()) fail("ends with a backslash");
    const std::uint32_t code = next_code(left_);
    code_ranges digits{{'0', '9'}}, word{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
        space{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    const auto one = [](std::uint32_t l) { return code_ranges{{l, l}}; };
    switch (code) {
      case 'd': return digits;
      case 'D': return all_but(digits);
      case 'w': return word;
      case 'W': return all_but(word);
      case 's': return space;
      case 'S': return all_but(space);
      case 'n': return one('\n');
      case 't': return one('\t');
      case 'r': return one('\r');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case 'a': return one('\a');
      case 'x': return one(hexadecimal());
      default: break;
    }
    const bool is_word = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z');
    if (is_word) fail("has an unknown escape");
    return one(code);
  }
  std::uint32_t hexadecimal() {
    std::string_view digits = left_.substr(0, 2);
    std::size_t used = digits.size();
    if (left_.starts_with('{')) {
      const std::size_t end = left_.find('}');
      if (end == std::string_view::npos || end > 8) fail("has an unknown escape");
      digits = left_.substr(1, end - 1), used = end + 1;
    }
    std::uint32_t code = 0;
    const auto [at, why] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.empty() || at != digits.data() + digits.size() || why != std::errc() || code > 0x10FFFF)
      fail("has an unknown escape");
    left_.remove_prefix(used);
    return code;
  }
  code_ranges set() {
    const bool inverted = take("^");
    code_ranges made;
    for (bool first = true; first || !take("]"); first = false) {
      if (left_.empty()) fail("has an unclosed set");
      if (named(made)) continue;
      code_ranges from = take("\\") ? escaped() : code_ranges{};
      if (from.empty()) {
        const std::uint32_t code = next_code(left_);
        from = {{code, code}};
      }
      if (from.size() == 1 && from[0].first == from[0].second && left_.size() > 1 && left_[0] == '-' &&
          left_[1] != ']') {
        take("-");
        const std::uint32_t to = take("\\") ? escaped()[0].first : next_code(left_);
        if (to < from[0].first) fail("has a range that ends before it begins");
        from[0].second = to;
      }
      made.insert(made.end(), from.begin(), from.end());
    }
    return inverted ? all_but(std::move(made)) : made;
  }
  bool named(code_ranges& to) {
    const std::pair<std::string_view, code_ranges> names[] = {
        {"[:alpha:]", {{'A', 'Z'}, {'a', 'z'}}},
        {"[:digit:]", {{'0', '9'}}},
        {"[:lower:]", {{'a', 'z'}}},
        {"[:upper:]", {{'A', 'Z'}}},
        {"[:alnum:]", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
        {"[:space:]", {{'\t', '\r'}, {' ', ' '}}},
        {"[:punct:]", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}}};
    for (const auto& [name, ranges] : names)
      if (take(name)) {
        to.insert(to.end(), ranges.begin(), ranges.end());
        return true;
      }
    return false;
  }

  const host_call& c_;
  std::string_view left_, whole_;
  machine made_;
  bool fold_ = false, dot_all_ = false;
};

// The set of states that a machine is in.
class walk {
 public:
  explicit walk(const machine& m) : m_(m), seen_(m.states.size(), 0) {}
  bool matches(std::string_view s) {
    now_.clear();
    enter(0, {true, s.empty(), begins_word(s)});
    while (!s.empty() && !now_.empty()) {
      const std::uint32_t code = next_code(s);
      std::swap(now_, before_);
      now_.clear();
      ++round_;
      const place here{false, s.empty(), is_word(code) != begins_word(s)};
      for (const std::size_t i : before_) {
        const auto& state = m_.states[i];
        if (state.is != machine::kind::letter) continue;
        for (const auto& [from, to] : m_.sets[state.letters])
          if (code >= from && code <= to) {
            enter(state.next, here);
            break;
          }
      }
    }
    ++round_;
    return s.empty() &&
           std::any_of(now_.begin(), now_.end(), [&](std::size_t i) { return m_.states[i].is == machine::kind::done; });
  }

 private:
  // Position between two characters: whether the string begins or ends there, and whether it is a word boundary.
  struct place {
    bool begins, ends, boundary;
  };
  static bool is_word(std::uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
  }
  static bool begins_word(std::string_view s) { return !s.empty() && is_word(static_cast<unsigned char>(s[0])); }
  static bool passes(machine::kind is, const place& here) {
    using kind = machine::kind;
    switch (is) {
      case kind::begin: return here.begins;
      case kind::end: return here.ends;
      case kind::boundary: return here.boundary;
      case kind::no_boundary: return !here.boundary;
      default: return true;
    }
  }
  void enter(std::size_t first, const place& here) {
    using kind = machine::kind;
    stack_.assign(1, first);
    while (!stack_.empty()) {
      const std::size_t i = stack_.back();
      stack_.pop_back();
      if (seen_[i] == round_) continue;
      seen_[i] = round_;
      const auto& s = m_.states[i];
      if (s.is == kind::fork) stack_.push_back(s.other);
      if (s.is == kind::letter || s.is == kind::done) now_.push_back(i);
      else if (passes(s.is, here)) stack_.push_back(s.next);
    }
  }
  const machine& m_;
  std::vector<std::uint64_t> seen_;
  std::uint64_t round_ = 1;
  std::vector<std::size_t> now_{}, before_{}, stack_{};
};
}  // namespace

void op::regex_full_match::run(host_call& c) {
  const machine m = pattern_reader(c, single(c, 1)).read();
  walk w(m);
  const strings x = strings_of(c, 0);
  any_tensor made(tensor_type{dtype::boolean, c.tensor(0).shape()});
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (stop_requested()) c.fail(error_kind::stopped, text() << "the run was stopped before string " << i);
    made.mutable_data()[i] = std::byte(w.matches(x[i]) ? 1 : 0);
  }
  c.result(0, std::move(made));
}

// ---- n-grams --------------------------------------------------------------------------------------------------------

namespace {
// N-grams as paths in a trie of element numbers.
class gram_tree {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t child(std::size_t of, std::size_t element) const {
    const auto at = children_.find({of, element});
    return at == children_.end() ? none : at->second;
  }
  std::size_t make(std::size_t of, std::size_t element) {
    const auto [at, fresh] = children_.try_emplace({of, element}, numbers_.size());
    if (fresh) numbers_.push_back(none);
    return at->second;
  }
  std::size_t& number(std::size_t node) { return numbers_[node]; }

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> children_;
  std::vector<std::size_t> numbers_{none};
};

gram_tree tree_of(const host_call& c, const std::vector<std::size_t>& pool, std::int64_t width) {
  const auto begins = c.tensor(2).elements<std::int64_t>(), numbers = c.tensor(3).elements<std::int64_t>();
  gram_tree made;
  std::size_t gram = 0;
  for (std::size_t n = 0; n < begins.size(); ++n) {
    const std::int64_t last = n + 1 < begins.size() ? begins[n + 1] : static_cast<std::int64_t>(pool.size());
    const std::int64_t first = begins[n], length = static_cast<std::int64_t>(n) + 1;
    if (first < 0 || last < first || static_cast<std::uint64_t>(last) > pool.size() || (last - first) % length)
      c.fail(error_kind::value, text() << "n-grams of " << length << " elements at " << first << " to " << last
                                       << " do not fit a pool of " << pool.size());
    for (std::int64_t at = first; at < last; ++gram) {
      if (gram >= numbers.size() || numbers[gram] < 0 || numbers[gram] >= width)
        c.fail(error_kind::value, text() << "n-gram " << gram << " has no number below " << width);
      std::size_t node = 0;
      for (std::int64_t i = 0; i < length; ++i) node = made.make(node, pool[static_cast<std::size_t>(at++)]);
      made.number(node) = static_cast<std::size_t>(numbers[gram]);
    }
  }
  return made;
}

// Adds the counts of one row.
void count_grams(const tf_idf_attributes& a, gram_tree& tree, view<const std::size_t> row, float* to) {
  const auto size = static_cast<std::int64_t>(row.size());
  const auto count_from = [&](std::int64_t from, std::int64_t step, std::int64_t least, std::int64_t max) {
    std::size_t node = 0;
    for (std::int64_t n = 1, at = from; n <= max && at < size; ++n, at += step) {
      node = tree.child(node, row[static_cast<std::size_t>(at)]);
      if (node == gram_tree::none) return;
      if (n >= least && tree.number(node) != gram_tree::none) to[tree.number(node)] += 1;
    }
  };
  if (a.shortest == 1)  // single elements
    for (std::int64_t i = 0; i < size; ++i) count_from(i, 1, 1, 1);
  const std::int64_t least = std::max<std::int64_t>(a.shortest, 2);
  if (a.longest < least) return;
  for (std::int64_t step = 1; step - 1 <= std::min(a.skips, size); ++step)
    for (std::int64_t i = 0; i < size; ++i) count_from(i, step, least, a.longest);
}

template <class T> void numbered(const host_call& c, std::vector<std::size_t>& row, std::vector<std::size_t>& pool) {
  std::unordered_map<T, std::size_t> known;
  for (const T& e : c.tensor(1).elements<T>()) pool.push_back(known.try_emplace(e, known.size()).first->second);
  for (const T& e : c.tensor(0).elements<T>()) {
    const auto at = known.find(e);
    row.push_back(at == known.end() ? gram_tree::none : at->second);
  }
}
}  // namespace

void op::tf_idf::run(host_call& c) {
  const auto& a = c.attributes<tf_idf_attributes>();
  std::vector<std::size_t> all, pool;
  if (c.tensor(0).element() == dtype::string) numbered<std::string_view>(c, all, pool);
  else numbered<std::int64_t>(c, all, pool);
  gram_tree tree = tree_of(c, pool, a.width);
  const shape& s = c.tensor(0).shape();
  const std::size_t rows = s.rank == 2 ? static_cast<std::size_t>(s.at(0)) : 1, each = rows ? all.size() / rows : 0;
  const auto width = static_cast<std::size_t>(a.width);
  budget(c).add(width * sizeof(float), rows);
  const auto weights = c.tensor(4).elements<float>();
  const auto numbers = c.tensor(3).elements<std::int64_t>();
  if (a.weighted && weights.size() != numbers.size())
    c.fail(error_kind::value, text() << weights.size() << " weights for " << numbers.size() << " n-grams");
  std::vector<float> weight_of(a.weighted ? width : 0);
  for (std::size_t i = 0; a.weighted && i < numbers.size(); ++i)
    if (numbers[i] >= 0 && numbers[i] < a.width) weight_of[static_cast<std::size_t>(numbers[i])] = weights[i];
  std::vector<float> made(rows * width);
  for (std::size_t r = 0; r < rows; ++r) {
    if (stop_requested()) c.fail(error_kind::stopped, text() << "the run was stopped before row " << r);
    float* const to = made.data() + r * width;
    count_grams(a, tree, view<const std::size_t>(all.data() + r * each, each), to);
    for (std::size_t i = 0; i < width; ++i) {
      if (!a.counts && to[i] > 0) to[i] = 1;
      if (a.weighted) to[i] *= weight_of[i];
    }
  }
  c.result(0, of_numbers(c.of().results[0].dims.rank == 2 ? shape{dim(static_cast<std::int64_t>(rows)), dim(a.width)}
                                                          : shape{dim(a.width)},
                         made));
}

// ---- functions ------------------------------------------------------------------------------------------------------

namespace {
template <class Op> std::vector<value> all_of(const typename Op::attributes& a, view<const value> in) {
  program& owner = in[0].owner();
  const value_id first = owner.add(record<Op>, detail::share_attributes(a), in);
  std::vector<value> results;
  for (std::size_t i = 0; i < owner.at(first).results.size(); ++i)
    results.emplace_back(&owner, value_id{first.node, static_cast<std::int32_t>(i)});
  return results;
}
template <class Op> value one_of(const typename Op::attributes& a, view<const value> in) {
  return all_of<Op>(a, in)[0];
}
}  // namespace

value string_concat(const value& a, const value& b, const origin&) { return one_of<op::string_concat>({}, {a, b}); }
value equal_strings(const value& a, const value& b, const origin&) { return one_of<op::equal_strings>({}, {a, b}); }
value find_strings(const value& x, const value& keys, const origin&) { return one_of<op::find_strings>({}, {x, keys}); }
std::vector<value> string_split(const value& x, const value& delimiter, string_split_attributes a, const origin&) {
  return all_of<op::string_split>(a, {x, delimiter});
}
value string_normalize(const value& x, const value& stopwords, string_normalize_attributes a, const origin&) {
  return one_of<op::string_normalize>(a, {x, stopwords});
}
value regex_full_match(const value& x, const value& pattern, const origin&) {
  return one_of<op::regex_full_match>({}, {x, pattern});
}
value string_to_number(const value& x, dtype to, const origin&) { return one_of<op::string_to_number>({to}, {x}); }
value number_to_string(const value& x, const origin&) { return one_of<op::number_to_string>({}, {x}); }
value string_positions(const value& x, view<const value> before, const origin&) {
  std::vector<value> in(before.begin(), before.end());
  in.push_back(x);
  return one_of<op::string_positions>({}, in);
}
value take_strings(view<const value> pools, const value& positions, const origin&) {
  std::vector<value> in(pools.begin(), pools.end());
  in.push_back(positions);
  return one_of<op::take_strings>({}, in);
}
std::vector<value> string_ranks(const value& x, const origin&) { return all_of<op::string_ranks>({}, {x}); }
value tf_idf(const value& x, const value& pool, const value& begins, const value& numbers, const value& weights,
             tf_idf_attributes a, const origin&) {
  return one_of<op::tf_idf>(a, {x, pool, begins, numbers, weights});
}

}  // namespace lamina
