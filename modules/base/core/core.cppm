// Basics shared by all modules: message text, diagnostics, structural tuples, named values, views, errors.
export module lamina:core;
import lamina.std;

namespace lamina {

// ---- text -----------------------------------------------------------------------------------------------------------

/// A string literal as a template argument.
export template <std::size_t N> struct fixed_string {
  char chars[N]{};
  constexpr fixed_string() = default;
  constexpr fixed_string(const char (&literal)[N]) {
    for (std::size_t i = 0; i < N; ++i) chars[i] = literal[i];
  }
  constexpr operator std::string_view() const { return {chars, N - 1}; }
  constexpr std::string_view view() const { return {chars, N - 1}; }
  constexpr bool empty() const { return N == 1; }
};

/// Message text, usable in constant evaluation: the same code writes compile-time and run-time errors.
/// (std::string and vector(n) are not constexpr-usable under Clang with libstdc++ 12; push_back is.)
// Appending is never inlined: every unit that names an operation builds messages, and only compile time matters there.
export struct message_text {
  std::vector<char> chars;

  constexpr message_text() = default;
  explicit constexpr message_text(std::string_view v) { *this << v; }
  constexpr bool empty() const { return chars.empty(); }
  constexpr std::string_view view() const { return {chars.data(), chars.size()}; }
  std::string string() const { return std::string(view()); }

  [[gnu::noinline]] constexpr message_text& operator<<(std::string_view v) {
    for (char c : v) chars.push_back(c);
    return *this;
  }
  [[gnu::noinline]] constexpr message_text& operator<<(const char* v) { return *this << std::string_view(v); }
  [[gnu::noinline]] constexpr message_text& operator<<(char c) {
    chars.push_back(c);
    return *this;
  }
  [[gnu::noinline]] constexpr message_text& operator<<(bool b) {
    return *this << std::string_view(b ? "true" : "false");
  }
  constexpr message_text& operator<<(const message_text& t) { return *this << t.view(); }
  template <std::integral T> requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  [[gnu::noinline]] constexpr message_text& operator<<(T value) {
    if (value < 0) chars.push_back('-');
    char digits[24]{};
    std::size_t n = 0;
    do {
      int digit = static_cast<int>(value % 10);
      digits[n++] = static_cast<char>('0' + (digit < 0 ? -digit : digit));
      value = static_cast<T>(value / 10);
    } while (value != 0);
    while (n) chars.push_back(digits[--n]);
    return *this;
  }
  /// Up to six significant decimals; an exponent only for very large or very small numbers.
  [[gnu::noinline]] constexpr message_text& operator<<(double value);
};

/// Name inside the library. Not exported, so that a user's own `text` is not ambiguous.
using text = message_text;

constexpr text& text::operator<<(double value) {
  if (value != value) return *this << std::string_view("nan");
  if (value < 0) {
    chars.push_back('-');
    value = -value;
  }
  if (value > std::numeric_limits<double>::max()) return *this << std::string_view("inf");
  int exponent = 0;
  if (value != 0 && (value >= 1e15 || value < 1e-4)) {
    while (value >= 10) {
      value /= 10;
      ++exponent;
    }
    while (value < 1) {
      value *= 10;
      --exponent;
    }
  }
  auto whole = static_cast<std::uint64_t>(value);
  auto fraction = static_cast<std::uint64_t>((value - static_cast<double>(whole)) * 1e6 + 0.5);
  if (fraction >= 1000000) {
    ++whole;
    fraction = 0;
  }
  if (exponent && whole == 10) {  // rounded up
    whole = 1;
    ++exponent;
  }
  *this << whole;
  if (fraction) {
    char digits[6]{};
    for (int i = 5; i >= 0; --i) {
      digits[i] = static_cast<char>('0' + fraction % 10);
      fraction /= 10;
    }
    int last = 5;
    while (digits[last] == '0') --last;
    chars.push_back('.');
    for (int i = 0; i <= last; ++i) chars.push_back(digits[i]);
  }
  if (exponent) *this << 'e' << exponent;
  return *this;
}

// ---- diagnostics ------------------------------------------------------------------------------------------

/// The message of a check as an exact-size constant. `Check::message()` is consteval and returns text, empty on
/// success.
export template <class Check> consteval auto diagnostic() {
  constexpr std::size_t n = Check::message().chars.size();
  fixed_string<n + 1> f;
  if constexpr (n != 0) {
    auto t = Check::message();
    for (std::size_t i = 0; i < n; ++i) f.chars[i] = t.chars[i];
    f.chars[n] = '\0';  // explicit: otherwise Clang prints lengths of 8, 16, 32, 64 as numbers
  }
  return f;
}

// Clang after 19 truncates a string argument to 34 characters, but prints the arguments of a two-argument concept in
// full.
template <fixed_string Message, fixed_string Expected>
concept message_is = Message.view() == Expected.view();

/// The compiler prints the message in its note: Clang 19 as `fixed_string{"..."}.empty()` evaluated to false,
/// later ones as `message_is<fixed_string{"..."}, "">` evaluated to false.
// Clang 19 does not use `message_is`: it would print another note for each overload.
export template <fixed_string Message>
#if __clang_major__ < 20
concept accepted = Message.empty();
#else
concept accepted = requires { requires message_is<Message, "">; };
#endif

/// Satisfied if `Check` finds no error; otherwise the compiler prints the check's message.
export template <class Check>
concept no_error = accepted<diagnostic<Check>()>;

/// The name of a type, as the compiler prints it.
export template <class T> consteval std::string_view type_name() {
  std::string_view f = __PRETTY_FUNCTION__;
  auto b = f.find("T = ") + 4;
  return f.substr(b, f.size() - b - 1);
}

/// The I-th type of a list, without recursion.
export template <std::size_t I, class... T> using pick_type = __type_pack_element<I, T...>;

// ---- structural tuple -----------------------------------------------------------------------------------------------

template <std::size_t I, class T> struct slot {
  T value;
};

template <class Seq, class... T> struct slots;

template <std::size_t... I, class... T> struct slots<std::index_sequence<I...>, T...> : slot<I, T>... {
  static constexpr std::size_t size = sizeof...(T);
  template <std::size_t J> constexpr const auto& get() const { return at<J>(*this); }
  template <std::size_t J> constexpr auto& get() { return mutable_at<J>(*this); }
  /// Calls f(integral_constant<I>, value) for each value in order. No fold: Clang limits folds to 256 operands.
  template <class F> constexpr void each(F&& f) const {
    [[maybe_unused]] int calls[] = {
        0, (f(std::integral_constant<std::size_t, I>{}, static_cast<const slot<I, T>&>(*this).value), 0)...};
  }

 private:
  template <std::size_t J, class U> static constexpr const U& at(const slot<J, U>& s) { return s.value; }
  template <std::size_t J, class U> static constexpr U& mutable_at(slot<J, U>& s) { return s.value; }
};

/// A tuple of structural type, so that values made of it can be template arguments.
export template <class... T> using pack = slots<std::index_sequence_for<T...>, T...>;

// ---- names ----------------------------------------------------------------------------------------------------------

/// A name of at most 24 characters in three 64-bit words: constant evaluation pays per array element.
export struct label {
  std::uint64_t words[3]{};
  static constexpr std::size_t limit = 24;

  constexpr label() = default;
  constexpr label(std::string_view v) {
    if (v.size() > limit) too_long();
    for (std::size_t i = 0; i < v.size(); ++i)
      words[i / 8] |= static_cast<std::uint64_t>(static_cast<unsigned char>(v[i])) << (56 - 8 * (i % 8));
  }
  constexpr label(const char* s) : label(std::string_view(s)) {}
  constexpr bool empty() const { return words[0] == 0; }
  [[gnu::noinline]] constexpr friend text& operator<<(text& t, const label& l) {
    for (std::size_t i = 0; i < limit; ++i)
      if (char c = static_cast<char>(l.words[i / 8] >> (56 - 8 * (i % 8)) & 255)) t.chars.push_back(c);
    return t;
  }
  std::string string() const {
    text t;
    t << *this;
    return t.string();
  }
  constexpr bool operator==(const label& o) const {
    return words[0] == o.words[0] && words[1] == o.words[1] && words[2] == o.words[2];
  }
  constexpr bool operator<(const label& o) const {
    return words[0] != o.words[0]   ? words[0] < o.words[0]
           : words[1] != o.words[1] ? words[1] < o.words[1]
                                    : words[2] < o.words[2];
  }

 private:
  static void too_long();  // not constexpr: a longer name fails constant evaluation, or raises an error at run time
};

// ---- views ----------------------------------------------------------------------------------------------------------

/// Contiguous elements. Not std::span: a program that only imports cannot reach the operators of its iterators.
export template <class T> struct view {
  T* first = nullptr;
  std::size_t count = 0;

  constexpr view() = default;
  constexpr view(T* f, std::size_t n) : first(f), count(n) {}
  template <class R> requires requires(R& r) {
    { r.data() } -> std::convertible_to<T*>;
    r.size();
  } constexpr view(R&& r) : first(r.data()), count(r.size()) {}
  constexpr view(std::initializer_list<std::remove_const_t<T>> l) requires std::is_const_v<T>
      : first(l.begin()), count(l.size()) {}
  template <std::size_t N> constexpr view(T (&a)[N]) : first(a), count(N) {}

  constexpr T* begin() const { return first; }
  constexpr T* end() const { return first + count; }
  constexpr T* data() const { return first; }
  constexpr std::size_t size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr T& operator[](std::size_t i) const { return first[i]; }
  constexpr T& front() const { return first[0]; }
  constexpr T& back() const { return first[count - 1]; }
  constexpr view subview(std::size_t from, std::size_t n) const { return {first + from, n}; }
};

namespace detail {
/// A value that a move resets to `Left`, so that a class with a defaulted move can detect that it was moved from.
template <class T, T Left = T{}> struct handed_over {
  T is = Left;
  constexpr handed_over() = default;
  constexpr handed_over(T v) : is(v) {}
  constexpr handed_over(const handed_over&) = default;
  constexpr handed_over(handed_over&& o) noexcept : is(std::exchange(o.is, Left)) {}
  constexpr handed_over& operator=(const handed_over&) = default;
  constexpr handed_over& operator=(handed_over&& o) noexcept {
    is = std::exchange(o.is, Left);
    return *this;
  }
  constexpr operator T() const { return is; }
};

/// Positions of `count` elements in stable order; `before(x, y)`: element x comes before element y. A program that sorts
/// this way contains one sort, not one for each type of elements.
std::vector<std::size_t> stable_order(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& before);
/// Sorts elements that can be moved; equal ones keep their order.
template <class T> void sort_stably(std::vector<T>& all, const std::function<bool(const T&, const T&)>& before) {
  std::vector<T> sorted;
  sorted.reserve(all.size());
  for (const auto i : stable_order(all.size(), [&](auto x, auto y) { return before(all[x], all[y]); }))
    sorted.push_back(std::move(all[i]));
  all = std::move(sorted);
}
}  // namespace detail

// ---- names that are not there ---------------------------------------------------------------------------------------

/// Levenshtein distance: elements to change, add or remove to turn one sequence into the other (letters, tokens).
template <class Sequence> constexpr std::size_t edit_distance(const Sequence& a, const Sequence& b) {
  std::vector<std::size_t> row;
  for (std::size_t j = 0; j <= b.size(); ++j) row.push_back(j);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = row[0];  // previous row's value, diagonally adjacent
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = corner + (a[i] != b[j]);
      corner = row[j + 1];
      row[j + 1] = std::min(changed, std::min(corner, row[j]) + 1);
    }
  }
  return row[b.size()];
}
/// Appends the available names, each once, and the closest one to the unknown name `meant` as a suggestion.
constexpr void suggest_names(text& t, std::string_view meant, view<const std::string_view> there) {
  std::string_view nearest;
  std::size_t apart = meant.size() / 2 + 1, listed = 0;  // a name that shares less than half is no suggestion
  t << (there.empty() ? "; there are none" : "; there are");
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (std::find(there.begin(), there.begin() + i, there[i]) != there.begin() + i) continue;
    if (const std::size_t n = edit_distance(meant, there[i]); n < apart) {
      apart = n;
      nearest = there[i];
    }
    if (listed++ < 12) t << (listed > 1 ? ", `" : " `") << there[i] << "`";
  }
  if (listed > 12) t << ", ... (" << listed << ")";
  if (!nearest.empty()) t << "; did you mean `" << nearest << "`?";
}

// ---- numbers --------------------------------------------------------------------------------------------------------

/// Formats a number with `decimals` digits after a point, independent of the locale; at most 100 decimals.
export std::string decimals_of(double x, int decimals);
/// Parses all of `s` as a number with a decimal point, independent of the locale, as in `0.5`, `-1e-3` or `inf`;
/// nothing if `s` is not a number or exceeds the range of double.
export std::optional<double> number_in(std::string_view s);
/// Whether `s` is valid UTF-8: shortest encodings only, no surrogates.
export bool is_utf8(std::string_view s);

// ---- errors ---------------------------------------------------------------------------------------------------------

/// Base of every error that lamina reports at run time.
export class error : public std::runtime_error {
 public:
  explicit error(const std::string& what);
  ~error() override;
};
/// Mismatched shapes.
export class shape_error : public error {
 public:
  using error::error;
  ~shape_error() override;
};
/// Mismatched element types.
export class type_error : public error {
 public:
  using error::error;
  ~type_error() override;
};
/// A value out of range, an unknown name, an invalid option.
export class value_error : public error {
 public:
  using error::error;
  ~value_error() override;
};
/// A file that is missing, unreadable, damaged or not writable.
export class file_error : public error {
 public:
  using error::error;
  ~file_error() override;
};
/// An object used in a state that does not allow it.
export class state_error : public error {
 public:
  using error::error;
  ~state_error() override;
};
/// An allocation that would exceed the limit, or that the system refused.
export class out_of_memory : public error {
 public:
  using error::error;
  out_of_memory(const std::string& what, std::size_t requested, std::int64_t used, std::int64_t limit,
                std::size_t planned = 0);
  ~out_of_memory() override;
  /// Bytes requested.
  std::size_t requested() const { return requested_; }
  /// Bytes in use at that time, and the limit; 0 means no limit.
  std::int64_t used() const { return used_; }
  std::int64_t limit() const { return limit_; }
  /// Bytes that the plan of the failed run needs: activations, and scratch per thread. 0 if no plan is known.
  std::size_t planned() const { return planned_; }

 private:
  std::size_t requested_ = 0, planned_ = 0;
  std::int64_t used_ = 0, limit_ = 0;
};
/// A deadline that passed before the work began.
export class deadline_error : public error {
 public:
  using error::error;
  ~deadline_error() override;
};
/// Thrown for a request that a shutdown cancelled, and for a run that a `stop_scope` stopped.
export class stopped_error : public error {
 public:
  using error::error;
  ~stopped_error() override;
};
/// A feature that a file needs and this library lacks: a format version, an operation.
export class unsupported_error : public error {
 public:
  using error::error;
  ~unsupported_error() override;
};

/// A resource other than memory that the system refused: a thread.
export class resource_error : public error {
 public:
  using error::error;
  ~resource_error() override;
};

export enum class error_kind { shape, type, value, file, state, memory, deadline, stopped, unsupported, resource };

export namespace detail {
/// Throws an error of the given kind. Interfaces contain no `throw`, so that programs without exceptions can import
/// them.
[[noreturn]] void raise(error_kind kind, std::string_view what);
[[noreturn]] inline void raise(error_kind kind, const text& what) { raise(kind, what.view()); }
}  // namespace detail

// ---- named values ---------------------------------------------------------------------------------------------------

export template <fixed_string Name, class T> struct entry {
  static constexpr auto name = Name;
  T value;
};

export template <fixed_string Name> struct key_type {
  static constexpr auto name = Name;
  template <class T> constexpr auto operator=(T&& v) const -> entry<Name, std::remove_cvref_t<T>> {
    return {std::forward<T>(v)};
  }
};
/// Names an entry of a `dict`: `dict("lhs"_key = a)`, `d["lhs"_key]`. Templates that take the name as an argument write
/// `key_type<Name>{}`.
export inline namespace literals {
  template <fixed_string Name> consteval key_type<Name> operator""_key() { return {}; }
}  // namespace literals

template <fixed_string Key, fixed_string... Keys> struct unknown_key {
  static consteval text message() {
    std::string_view names[] = {Keys.view()..., {}};
    for (std::size_t i = 0; i < sizeof...(Keys); ++i)
      if (names[i] == Key.view()) return {};
    text t;
    t << "no key `" << Key.view() << "` in this dict; its keys are:";
    for (std::size_t i = 0; i < sizeof...(Keys); ++i) t << (i ? ", `" : " `") << names[i] << "`";
    return t;
  }
};

template <class T> inline constexpr bool is_entry = false;
template <fixed_string Name, class T> inline constexpr bool is_entry<entry<Name, T>> = true;
template <class... E> struct dict_arguments_check {
  static consteval text message() {
    text t;
    const bool fits[] = {is_entry<E>..., true};
    const std::string_view names[] = {type_name<E>()..., {}};
    for (std::size_t i = 0; i < sizeof...(E); ++i)
      if (t.empty() && !fits[i])
        t << "argument " << i + 1 << " of dict(...) is a `" << names[i]
          << "`; it takes entries, each a name in quotes with the suffix `_key`, `=`, and a value";
    return t;
  }
};
template <class... E> struct repeated_key {
  static consteval text message() {
    std::string_view names[] = {E::name.view()..., {}};
    for (std::size_t i = 0; i < sizeof...(E); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (names[i] == names[j]) {
          text t;
          t << "key `" << names[i] << "` is given twice (positions " << j << " and " << i << ")";
          return t;
        }
    return {};
  }
};

/// Named values of different types, without heap allocation: `dict("lhs"_key = a, "rhs"_key = b)`.
export template <class... E> struct dict {
  static_assert(
      accepted<diagnostic<std::conditional_t<(is_entry<E> && ...), repeated_key<E...>, dict_arguments_check<E...>>>()>);
  static constexpr std::size_t size = sizeof...(E);
  pack<E...> entries;

  constexpr dict(E... e) : entries{{std::move(e)}...} {}
  template <fixed_string Key> static constexpr bool contains = ((Key.view() == E::name.view()) || ...);
  // A separate template argument: Clang prints its message one step earlier, which matters for a const dict.
  template <fixed_string Key> static constexpr auto mismatch = diagnostic<unknown_key<Key, E::name...>>();

  template <fixed_string Key, fixed_string Mismatch = mismatch<Key>> requires message_is<Mismatch, "">
  constexpr const auto& operator[](key_type<Key>) const {
    return entries.template get<place<Key>()>().value;
  }
  template <fixed_string Key, fixed_string Mismatch = mismatch<Key>> requires message_is<Mismatch, "">
  constexpr auto& operator[](key_type<Key>) {
    return entries.template get<place<Key>()>().value;
  }
  template <fixed_string Key, fixed_string Mismatch = mismatch<Key>> requires message_is<Mismatch, "">
  constexpr const auto& get() const {
    return entries.template get<place<Key>()>().value;
  }
  /// Returns the dict with an entry added, or replaced if the name exists; the type may change: `d.with("rhs"_key =
  /// b)`.
  template <fixed_string Key, class T> constexpr auto with(entry<Key, T> e) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (contains<Key>)
        return dict<std::conditional_t<Key.view() == E::name.view(), entry<Key, T>, E>...>(
            either < Key.view() == E::name.view() > (e, entries.template get<I>())...);
      else return dict<E..., entry<Key, T>>(entries.template get<I>()..., e);
    }(std::index_sequence_for<E...>{});
  }
  template <class F> constexpr void each(F&& f) const {
    entries.each([&](auto, const auto& e) { f(e.name.view(), e.value); });
  }

 private:
  template <bool First, class A, class B> static constexpr const auto& either(const A& a, const B& b) {
    if constexpr (First) return a;
    else return b;
  }
  template <fixed_string Key> static consteval std::size_t place() {
    std::string_view names[] = {E::name.view()..., {}};
    std::size_t i = 0;
    while (names[i] != Key.view()) ++i;
    return i;
  }
};
export template <class... E> dict(E...) -> dict<E...>;

}  // namespace lamina
