// Dimensions and shapes: numbers, unknown extents and names in one value type for compile time and run time.
export module lamina:shape;
import :core;
import lamina.std;

namespace lamina {

enum class any_extent : std::int64_t { dyn = -1 };
/// An extent that is known only at run time.
export inline constexpr any_extent dyn = any_extent::dyn;

/// An integer type that can count; excludes bool and character types.
template <class T>
concept Count = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
                !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

/// One dimension: a number, `dyn`, or a name ("N", "batch"). A dimension is one word: names of up to 10 letters, digits
/// or underscores are packed into the negative numbers below `dyn`, six bits a character. Other names, of up to 100
/// characters, exist only at run time: the word is a hash into a process-wide table of names.
/// Errors: shape_error for a number below 0 or beyond 63 bits; value_error for an invalid name.
export struct dim {
  std::int64_t code = -1;

  constexpr dim() = default;
  constexpr dim(any_extent) {}
  template <Count T> constexpr dim(T n) : code(static_cast<std::int64_t>(n)) {
    if (code < 0) [[unlikely]]
      extent_below_zero(code, std::is_unsigned_v<T>);
  }
  template <std::size_t N> constexpr dim(const char (&name)[N]) : code(pack(std::string_view(name, N - 1))) {}

  constexpr bool is_number() const { return code >= 0; }
  constexpr bool is_name() const { return code < -1; }
  constexpr bool operator==(const dim&) const = default;
  static constexpr dim named(std::string_view name) {
    dim d;
    d.code = pack(name);
    return d;
  }
  [[gnu::noinline]] constexpr friend text& operator<<(text& t, dim d) {
    if (d.is_number()) return t << d.code;
    if (!d.is_name()) return t << "?";
    if (d.code <= first_long) return t << long_name(d.code);
    auto bits = static_cast<std::uint64_t>(-(d.code + 1));
    for (int i = 9; i >= 0; --i)
      if (auto c = bits >> (6 * i) & 63) t << letters[c - 1];
    return t;
  }

 private:
  static constexpr char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  // Words at or below this are hashes of names that do not fit; packed names take 60 bits.
  static constexpr std::int64_t first_long = -(std::int64_t(1) << 61);
  static constexpr std::int64_t pack(std::string_view name) {
    std::uint64_t bits = 0;
    bool short_name = !name.empty() && name.size() <= 10;
    for (std::size_t i = 0; short_name && i < name.size(); ++i) {
      std::uint64_t at = 0;
      while (at < 63 && letters[at] != name[i]) ++at;
      short_name = at < 63;
      bits = bits << 6 | (at + 1);
    }
    if (short_name) return -static_cast<std::int64_t>(bits) - 1;
    if (std::is_constant_evaluated()) bad_name();
    return long_code(name);
  }
  // Not constexpr: their names appear in compile-time errors.
  static void bad_name();
  static std::int64_t long_code(std::string_view name);
  static std::string_view long_name(std::int64_t code);
  [[noreturn]] static void extent_below_zero(std::int64_t n, bool is_unsigned);
};

/// Highest rank of a tensor.
export inline constexpr int max_rank = 8;

/// Index of an element: a number for each axis.
export struct place {
  std::int32_t rank = 0;
  std::int64_t at[max_rank]{};
  constexpr place() = default;
  template <std::integral... I> requires(sizeof...(I) <= static_cast<std::size_t>(max_rank))
  constexpr place(I... i) : rank(sizeof...(I)), at{static_cast<std::int64_t>(i)...} {}
  /// Errors: value_error for an axis out of range.
  constexpr std::int64_t operator[](int axis) const { return at[checked(axis)]; }
  constexpr std::int64_t& operator[](int axis) { return at[checked(axis)]; }
  constexpr bool operator==(const place&) const = default;

 private:
  constexpr int checked(int axis) const {
    if (axis < 0 || axis >= rank) [[unlikely]]
      no_such_axis(axis, rank);
    return axis;
  }
  [[noreturn]] static void no_such_axis(int axis, int rank);  // not constexpr: named in compile-time errors
};

/// The dimensions of a tensor, outermost first. At run time every dimension of a tensor's shape is a number.
export struct shape {
  std::int32_t rank = 0;
  dim dims[max_rank]{dim(0), dim(0), dim(0), dim(0), dim(0), dim(0), dim(0), dim(0)};

  constexpr shape() = default;
  constexpr shape(std::initializer_list<dim> d) {
    if (d.size() > max_rank) too_many();
    for (auto v : d) dims[rank++] = v;
  }
  static constexpr shape of(view<const std::int64_t> d) {
    shape s;
    for (auto v : d) s.push_back(v);
    return s;
  }
  constexpr void push_back(dim d) {
    if (rank == max_rank) too_many();
    dims[rank++] = d;
  }
  /// The dimension of an axis. Errors: value_error for an axis that the shape does not have.
  constexpr dim operator[](int i) const { return dims[checked(i)]; }
  constexpr dim& operator[](int i) { return dims[checked(i)]; }
  constexpr dim back() const { return dims[checked(rank - 1)]; }
  constexpr dim& back() { return dims[checked(rank - 1)]; }
  /// Extent of a known dimension. Errors: value_error for an axis that the shape does not have.
  constexpr std::int64_t at(int i) const { return dims[checked(i)].code; }
  /// Product of all dimensions. Errors: shape_error unless each is a number and the product fits 63 bits.
  constexpr std::int64_t size() const {
    std::int64_t n = 1;
    bool counted = true;
    for (int i = 0; i < rank; ++i)
      counted = dims[i].code >= 0 && !__builtin_mul_overflow(n, dims[i].code, &n) && counted;
    return counted ? n : size_with_zero(0, rank);
  }
  /// Whether the byte count of the known extents does not overflow; otherwise the tensor cannot fit in memory. Extents
  /// of 0 hide no overflow.
  constexpr bool countable() const {
    std::int64_t bytes = 8;  // size of the widest element
    for (int i = 0; i < rank; ++i)
      if (dims[i].code > 0 && __builtin_mul_overflow(bytes, dims[i].code, &bytes)) return false;
    return true;
  }
  /// Product of the dimensions of axes [from, to). Errors: like `size()`; value_error for an axis that the shape does
  /// not have.
  constexpr std::int64_t size(int from, int to) const {
    std::int64_t n = 1;
    bool counted = true;
    for (int i = from; i < to; ++i)
      counted = dims[checked(i)].code >= 0 && !__builtin_mul_overflow(n, dims[i].code, &n) && counted;
    return counted ? n : size_with_zero(from, to);
  }
  constexpr bool is_static() const {
    for (int i = 0; i < rank; ++i)
      if (!dims[i].is_number()) return false;
    return true;
  }
  /// Row-major linear index of an element. Errors: value_error for an index out of bounds or of another rank.
  constexpr std::int64_t offset_of(const place& p) const {
    std::int64_t n = 0;
    if (p.rank != rank) outside();
    for (int i = 0; i < rank; ++i) {
      if (p[i] < 0 || p[i] >= dims[i].code) outside();
      n = n * dims[i].code + p[i];
    }
    return n;
  }
  /// Index of an element from its row-major linear index: `place_of(offset_of(p) + n)` is n elements further. Errors:
  /// value_error if out of range.
  constexpr place place_of(std::int64_t offset) const {
    if (offset < 0 || offset >= size()) outside();
    place p;
    p.rank = rank;
    for (int i = rank - 1; i >= 0; --i) {
      p[i] = offset % dims[i].code;
      offset /= dims[i].code;
    }
    return p;
  }
  constexpr bool operator==(const shape& o) const {
    if (rank != o.rank) return false;
    for (int i = 0; i < rank; ++i)
      if (dims[i] != o.dims[i]) return false;
    return true;
  }
  /// Usable as a cache key: contains no address.
  using plain_key = void;
  constexpr std::size_t hash() const {
    auto h = (static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < rank; ++i) {
      h = (h ^ static_cast<std::uint64_t>(dims[i].code)) * 0x9e3779b97f4a7c15u;
      h ^= h >> 32;
    }
    return static_cast<std::size_t>(h);
  }
  [[gnu::noinline]] constexpr friend text& operator<<(text& t, const shape& s) {
    t << "[";
    for (int i = 0; i < s.rank; ++i) t << (i ? "x" : "") << s.dims[i];
    return t << "]";
  }
  std::string string() const {
    text t;
    t << *this;
    return t.string();
  }

 private:
  constexpr int checked(int axis) const {
    if (axis < 0 || axis >= rank) [[unlikely]]
      no_such_axis(*this, axis);
    return axis;
  }
  // A product that overflows midway is still 0 if a factor is 0.
  constexpr std::int64_t size_with_zero(int from, int to) const {
    bool zero = false;
    for (int i = from; i < to; ++i) {
      if (!dims[i].is_number()) not_countable(*this);
      zero = zero || dims[i].code == 0;
    }
    if (!zero) not_countable(*this);
    return 0;
  }
  // Not constexpr: their names appear in compile-time errors.
  static void too_many();
  [[noreturn]] static void outside();
  [[noreturn]] static void no_such_axis(const shape& s, int axis);
  [[noreturn]] static void not_countable(const shape& s);
};

/// The extents of a tensor type: numbers, `dyn` and names in any mix.
export template <dim... D> struct extents {
  static constexpr lamina::shape pattern{D...};
  static constexpr int rank = sizeof...(D);
};

template <shape S> consteval auto extents_for_impl() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return extents<S.dims[I]...>{};
  }(std::make_index_sequence<static_cast<std::size_t>(S.rank)>{});
}
/// The extents type of a shape value.
template <shape S> using extents_for = decltype(extents_for_impl<S>());

/// Whether two dimensions can be equal: numbers must agree, anything else is decided at run time.
export constexpr bool may_equal(dim a, dim b) { return a == b || !a.is_number() || !b.is_number(); }
/// The more specific of two dimensions that must be equal: a number, else a name, else unknown.
export constexpr dim better(dim a, dim b) { return a.is_number() ? a : b.is_number() ? b : a.is_name() ? a : b; }

/// Whether a shape matches a pattern: same rank, equal numbers, and no name of the pattern bound to two numbers.
export constexpr bool fits(const shape& pattern, const shape& s) {
  if (pattern.rank != s.rank) return false;
  for (int i = 0; i < s.rank; ++i) {
    if (!may_equal(pattern[i], s[i])) return false;
    if (pattern[i].is_name())
      for (int k = 0; k < i; ++k)
        if (pattern[k] == pattern[i] && !may_equal(s[k], s[i])) return false;
  }
  return true;
}
/// A name bound to two numbers.
struct name_clash {
  dim name, first, second;
  explicit constexpr operator bool() const { return name.is_name(); }
};
/// The first name bound to two numbers if each of `given` is matched against the pattern of the same index; empty if
/// none.
constexpr name_clash clash_of_names(view<const shape> patterns, view<const shape> given) {
  for (std::size_t i = 0; i < given.size(); ++i)
    for (std::size_t k = 0; k <= i; ++k)
      for (int a = 0; a < given[i].rank && a < patterns[i].rank; ++a)
        for (int b = 0; b < given[k].rank && b < patterns[k].rank; ++b)
          if (patterns[i][a].is_name() && patterns[i][a] == patterns[k][b] && !may_equal(given[i][a], given[k][b]))
            return {patterns[i][a], given[k][b], given[i][a]};
  return {};
}
/// Whether two shapes are equal for all values of their unknown extents; two `dyn` extents may differ.
constexpr bool surely_equal(const shape& a, const shape& b) {
  for (int i = 0; i < a.rank; ++i)
    if (!a[i].is_number() && !a[i].is_name()) return false;
  return a == b;
}
/// The shape without its first axis, if it has one; the shape with one more axis in front.
constexpr shape without_first(shape s) {
  for (int i = 1; i < s.rank; ++i) s[i - 1] = s[i];
  if (s.rank > 0) --s.rank;
  return s;
}
constexpr shape with_first(dim first, const shape& s) {
  shape r{first};
  for (int i = 0; i < s.rank; ++i) r.push_back(s[i]);
  return r;
}

/// Broadcasts two shapes (trailing dimensions aligned, extent 1 repeats); false if they are incompatible.
/// An unknown dimension against a number other than 1 gives the number.
export constexpr bool broadcast(const shape& a, const shape& b, shape& result) {
  result = {};
  result.rank = a.rank > b.rank ? a.rank : b.rank;
  for (int k = 0; k < result.rank; ++k) {
    dim x = k < a.rank ? a[a.rank - 1 - k] : dim(1), y = k < b.rank ? b[b.rank - 1 - k] : dim(1);
    dim& o = result[result.rank - 1 - k];
    if (x == y) o = x;
    else if (x == dim(1)) o = y;
    else if (y == dim(1)) o = x;
    else if (x.is_number() && y.is_number()) return false;
    else if (x.is_number()) o = x;
    else if (y.is_number()) o = y;
    else o = dyn;
  }
  return true;
}

/// Number of positions of a window over `size` elements with `padding` on both sides and `more` extra at the end. `dyn`
/// stays `dyn`; 0 if the window does not fit or an argument is invalid.
export constexpr dim window_positions(dim size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                      std::int64_t dilation, std::int64_t more = 0) {
  if (!size.is_number()) return dyn;
  if (kernel < 1 || stride < 1 || padding < 0 || dilation < 1) return 0;
  std::int64_t reach = 0, padded = 0;  // reach: from the first element of the window to its last
  if (__builtin_mul_overflow(dilation, kernel - 1, &reach) || __builtin_mul_overflow(padding, 2, &padded) ||
      __builtin_add_overflow(padded, size.code, &padded) || __builtin_add_overflow(padded, more, &padded))
    return 0;
  return padded <= reach ? dim(0) : dim((padded - reach - 1) / stride + 1);
}

/// A list of axes as a template argument or attribute; negative axes count from the end. Empty: all axes.
export struct axes {
  std::int32_t count = 0;
  std::int32_t values[max_rank]{};
  constexpr axes() = default;
  template <std::integral... T> requires(sizeof...(T) <= static_cast<std::size_t>(max_rank))
  constexpr axes(T... a) : count(sizeof...(T)), values{held(a)...} {}
  /// Axes from an array: `axes::of({0, 2})`.
  template <std::integral T, std::size_t N> requires(N <= static_cast<std::size_t>(max_rank))
  static constexpr axes of(const T (&list)[N]) {
    axes a;
    for (T axis : list) a.values[a.count++] = held(axis);
    return a;
  }
  /// Errors: value_error for a position outside the list.
  constexpr std::int32_t operator[](int i) const {
    if (i < 0 || i >= count) [[unlikely]]
      not_in_list(i, count);
    return values[i];
  }
  constexpr bool operator==(const axes&) const = default;
  [[gnu::noinline]] constexpr friend text& operator<<(text& t, const axes& a) {
    t << "{";
    for (int i = 0; i < a.count; ++i) t << (i ? ", " : "") << a.values[i];
    return t << "}";
  }

 private:
  // Values beyond 32 bits saturate: they exceed every rank anyway.
  static constexpr std::int32_t held(std::integral auto a) {
    std::int32_t r = 0;
    return __builtin_add_overflow(a, 0, &r) ? std::numeric_limits<std::int32_t>::max() : r;
  }
  [[noreturn]] static void not_in_list(int i, int count);  // not constexpr: named in compile-time errors
};

/// Strides of a row-major tensor, in elements.
constexpr void row_major_strides(const shape& s, std::int64_t* strides) {
  std::int64_t step = 1;
  for (int i = s.rank - 1; i >= 0; --i) {
    strides[i] = step;
    step *= s.at(i);
  }
}

}  // namespace lamina
