module;
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
// Tensors: shared 64-byte aligned storage, row-major, any mix of static, dynamic and named extents; and data types
// without storage. All are operands of lazy operations.
export module lamina:tensor;
import :context;
import :core;
import :dtype;
import :shape;
import lamina.std;

namespace lamina {

/// Kinds of program values: a tensor, a list of tensors, or an optional of either.
export enum class value_kind : std::uint8_t { tensor, sequence, optional, optional_sequence };

/// Type of a value: element type and shape, with unknown and named dimensions allowed. For sequences and optionals they
/// describe the contained tensors, with `dyn` for extents that differ.
export struct tensor_type {
  dtype element = dtype::float32;
  shape dims;
  value_kind kind = value_kind::tensor;
  constexpr bool operator==(const tensor_type&) const = default;
  constexpr bool is_tensor() const { return kind == value_kind::tensor; }
  [[gnu::noinline]] constexpr friend text& operator<<(text& t, const tensor_type& x) {
    if (x.kind == value_kind::sequence) t << "sequence of ";
    if (x.kind == value_kind::optional) t << "optional ";
    if (x.kind == value_kind::optional_sequence) t << "optional sequence of ";
    return t << x.element << x.dims;
  }
  /// Bytes of a tensor of this type. Errors: shape_error unless every dimension is a number and the product fits 64
  /// bits.
  constexpr std::size_t bytes() const {
    std::size_t n = 0;
    if (__builtin_mul_overflow(dims.size(), size_of(element), &n)) too_large(dims);
    return n;
  }

 private:
  [[noreturn]] static void too_large(const shape& s);  // not constexpr: named in compile-time errors
};

/// Makes `lamina` an associated namespace of operands from other namespaces, so that ADL finds its functions and
/// operators.
export struct operand_base {};

/// Evaluation mode of typed lazy expressions.
export struct lazy;

// ---- storage --------------------------------------------------------------------------------------------------------

/// Reference-counted memory: owned and 64-byte aligned, or borrowed from the caller or a mapped file.
export class storage {
 public:
  storage() = default;
  /// Uninitialized owned memory.
  explicit storage(std::size_t bytes);
  /// Borrows memory, kept alive by `keeper` if given.
  static storage borrowed(void* data, std::size_t bytes, std::shared_ptr<void> keeper = nullptr);
  /// Same, read-only: it counts as shared with the caller.
  static storage borrowed(const void* data, std::size_t bytes, std::shared_ptr<void> keeper = nullptr);

  inline storage(const storage& o) noexcept : block_(o.block_) {
    if (block_) count(1);
  }
  inline storage(storage&& o) noexcept : block_(std::exchange(o.block_, nullptr)) {}
  inline storage& operator=(storage o) noexcept {
    std::swap(block_, o.block_);
    return *this;
  }
  inline ~storage() {
    // A sole handle skips the locked instruction.
    if (block_ && (block_->references.load(std::memory_order_acquire) == 1 || count(-1) == 1)) destroy(block_);
  }

  inline void* data() const { return block_ ? block_->data : nullptr; }
  inline std::size_t bytes() const { return block_ ? block_->bytes : 0; }
  /// Whether this is the only handle of writable memory, not counting `others` handles that are about to end.
  inline bool unique(long others = 0) const {
    return !block_ || (block_->references.load(std::memory_order_acquire) == 1 + others && !block_->constant);
  }
  inline bool is_constant() const { return block_ && block_->constant; }
  inline bool is_borrowed() const { return block_ && block_->borrowed; }
  inline bool same(const storage& o) const { return block_ == o.block_; }
  explicit operator bool() const { return block_ != nullptr; }

 private:
  struct block {
    std::atomic<long> references{1};
    void* data = nullptr;
    std::size_t bytes = 0;
    bool borrowed = false, constant = false;
    std::shared_ptr<void> keeper;
  };
  static constexpr std::size_t header = 64;
  static_assert(sizeof(block) <= header);
  static void destroy(block* b) noexcept;
  // Returns the previous count. Uses no locked instruction while the process has one thread.
  inline long count(long change) const noexcept {
#if __has_include(<sys/single_threaded.h>)
    if (__libc_single_threaded) {
      const long before = block_->references.load(std::memory_order_relaxed);
      block_->references.store(before + change, std::memory_order_relaxed);
      return before;
    }
#endif
    return block_->references.fetch_add(change, std::memory_order_acq_rel);
  }
  block* block_ = nullptr;
};

namespace detail {
// Messages live in one place, outside templates.
[[noreturn]] void extents_mismatch(const shape& pattern, const shape& got);
[[noreturn]] void index_out_of_range(const shape& s, view<const std::int64_t> index);
[[noreturn]] void write_refused(const shape& s, const storage& memory);
void check_extents(const shape& pattern, const shape& got);
/// Fills a pattern with numbers for all of its extents, or only for those that are not numbers.
shape extents_of(shape pattern, view<const std::int64_t> given);
/// Errors: shape_error unless `memory` has room for the type's elements from byte `first` on; value_error if
/// misaligned.
void check_memory(const storage& memory, const tensor_type& type, std::size_t first);
/// Errors: state_error if the shape has elements: then the tensor was moved from.
void check_not_moved_from(const shape& s);
std::string print(const void* data, dtype element, const shape& s);
}  // namespace detail

consteval std::size_t unknown_extents(const shape& pattern) {
  std::size_t n = 0;
  for (int i = 0; i < pattern.rank; ++i) n += !pattern[i].is_number();
  return n;
}
/// Nested initializer list for a tensor of a rank: `{{1, 2}, {3, 4}}`.
template <class T, int Rank> struct nested {
  using type = std::initializer_list<typename nested<T, Rank - 1>::type>;
};
template <class T> struct nested<T, 0> {
  using type = T;
};

// ---- tensor ---------------------------------------------------------------------------------------------------------

/// Elements of type T in row-major order. Copies share memory; writing requires the only handle (see `detach()`). A
/// moved-from tensor keeps its shape but has no elements until assigned to.
/// Errors: shape_error if run-time extents do not match the static ones; state_error when shared memory is written, or
/// elements of a moved-from tensor are accessed.
export template <Element T, class Extents> class tensor {
 public:
  using element_type = T;
  using extents_type = Extents;
  using evaluation_mode = lazy;
  /// Result of reading an element; const for class types, so that `t(0) = x` does not assign to a temporary.
  using element = std::conditional_t<std::is_class_v<T>, const T, T>;
  static constexpr lamina::shape pattern = Extents::pattern;
  static constexpr int rank = Extents::rank;

  /// Zeros of a fully static shape, or an empty tensor.
  tensor() {
    if constexpr (pattern.is_static()) allocate(pattern, true);
    else {
      shape_ = pattern;
      for (int i = 0; i < rank; ++i)
        if (!pattern[i].is_number()) shape_[i] = dim(0);
    }
  }
  /// Zeros; takes every extent, or only those that are not static.
  template <std::integral... I>
  requires(sizeof...(I) > 0 && (sizeof...(I) == rank || sizeof...(I) == unknown_extents(Extents::pattern)))
  explicit tensor(I... n) {
    const std::int64_t given[] = {static_cast<std::int64_t>(n)...};
    const lamina::shape s = detail::extents_of(pattern, given);
    detail::check_extents(pattern, s);
    allocate(s, true);
  }
  /// Zeros of a run-time shape.
  explicit tensor(const lamina::shape& s) {
    detail::check_extents(pattern, s);
    allocate(s, true);
  }
  /// Elements from a nested list: `matrix<float> m{{1, 2}, {3, 4}}`.
  tensor(typename nested<T, rank>::type list) requires(rank > 0) {
    lamina::shape s;
    s.rank = rank;
    measure<rank>(list, s, 0);
    detail::check_extents(pattern, s);
    allocate(s, false);
    T* out = mutable_data_;
    fill_from<rank>(list, s, 0, out);
  }
  /// An expression is not computed yet: call evaluate(e).
  template <class E> requires requires { typename E::operation; } tensor(const E& call_evaluate) = delete;
  /// A scalar.
  tensor(T value) requires(rank == 0) {
    allocate({}, false);
    *mutable_data_ = value;
  }
  /// Existing memory viewed with a shape, from element `first` on. Errors: shape_error if it has fewer elements than
  /// the shape.
  tensor(lamina::storage memory, const lamina::shape& s, std::size_t first = 0)
      : storage_(std::move(memory)), shape_(s) {
    detail::check_extents(pattern, s);
    detail::check_memory(storage_, type(), first * sizeof(T));
    mutable_data_ = static_cast<T*>(storage_.data()) + first;
  }
  /// Converts from another static shape: free to less static extents, checked to more static ones.
  template <class Other> requires(!std::same_as<Other, Extents> && fits(Extents::pattern, Other::pattern))
  tensor(const tensor<T, Other>& o) : tensor((static_cast<void>(o.data()), o.memory()), o.shape(), o.offset()) {}

  tensor(const tensor&) = default;
  tensor(tensor&& o) noexcept
      : storage_(std::move(o.storage_)), mutable_data_(std::exchange(o.mutable_data_, nullptr)), shape_(o.shape_) {}
  // Lvalues only: `m[0] = row` would write nothing; use assign_row(m, 0, row).
  tensor& operator=(const tensor&) & = default;
  tensor& operator=(tensor&& o) & noexcept {
    storage_ = std::move(o.storage_);
    mutable_data_ = std::exchange(o.mutable_data_, nullptr);
    shape_ = o.shape_;
    return *this;
  }
  ~tensor() = default;

  /// Uninitialized memory for results.
  static tensor uninitialized(const lamina::shape& s) {
    detail::check_extents(pattern, s);
    return tensor(not_cleared{}, s);
  }

  const lamina::shape& shape() const { return shape_; }
  std::int64_t extent(int axis) const { return shape_.at(axis); }
  /// Number of elements. Unlike `shape().size()` without checks: all that a tensor holds can be counted.
  std::int64_t size() const {
    std::uint64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= static_cast<std::uint64_t>(shape_.dims[i].code);
    return static_cast<std::int64_t>(n);
  }
  tensor_type type() const { return {dtype_of<T>, shape_}; }

  /// Elements, read-only.
  view<const T> data() const { return view<const T>(held(), static_cast<std::size_t>(size())); }
  /// Elements, writable. Errors: state_error while another tensor or expression shares the memory.
  view<T> writable() { return writable_ignoring(0); }
  /// Same, but ignores `others` handles that end with the write.
  view<T> writable_ignoring(long others) {
    if (!storage_.unique(others)) detail::write_refused(shape_, storage_);
    return view<T>(held(), static_cast<std::size_t>(size()));
  }
  /// Writable elements at an index of the outermost axes: one element if every axis has an index, `m.writable(2, 0) =
  /// 1`, else the whole sub-tensor: `m.writable(2)` is the third row.
  /// Errors: value_error for an index out of bounds; state_error while another tensor or expression shares the memory.
  template <std::integral... I> requires(sizeof...(I) > 0 && sizeof...(I) <= static_cast<std::size_t>(rank))
  decltype(auto) writable(I... i) & {
    const std::int64_t at = offset_of(i...);
    T* first = writable_ignoring(0).data();
    if constexpr (sizeof...(I) == static_cast<std::size_t>(rank)) return static_cast<T&>(first[at]);
    else {
      const auto n = shape_.size(static_cast<int>(sizeof...(I)), rank);
      return view<T>(first + at * n, static_cast<std::size_t>(n));
    }
  }
  /// Makes this the only handle of its memory, by a copy if it is shared or const.
  tensor& detach() {
    if (!storage_.unique()) *this = copy();
    return *this;
  }
  tensor copy() const {
    tensor t = uninitialized(shape_);
    if (size()) std::memcpy(static_cast<void*>(t.mutable_data_), held(), static_cast<std::size_t>(size()) * sizeof(T));
    return t;
  }

  /// The element at an index, read-only; write with `writable(i...)`.
  /// Errors: value_error for an index out of bounds.
  template <std::integral... I> requires(sizeof...(I) == rank) element operator()(I... i) const {
    const std::int64_t at = offset_of(i...);
    return held()[at];
  }

  /// The sub-tensor at an index of the outermost axis, counted from the end if negative; shares memory.
  auto operator[](std::int64_t i) const requires(rank > 0) {
    if (i < -shape_.at(0) || i >= shape_.at(0)) detail::index_out_of_range(shape_, {&i, 1});
    held();
    lamina::shape s;
    for (int a = 1; a < rank; ++a) s.push_back(shape_[a]);
    return tensor<T, inner>(storage_, s,
                            offset() + static_cast<std::size_t>((i < 0 ? i + shape_.at(0) : i) * s.size()));
  }
  /// Rows [first, last) of the outermost axis; shares memory.
  auto rows(std::int64_t first, std::int64_t last) const requires(rank > 0) {
    if (first < 0 || last < first || last > shape_.at(0)) {
      std::int64_t range[] = {first, last};
      detail::index_out_of_range(shape_, {range, 2});
    }
    held();
    lamina::shape s = shape_;
    s[0] = dim(last - first);
    return tensor<T, any_rows>(storage_, s, offset() + static_cast<std::size_t>(first * shape_.size(1, rank)));
  }

  const lamina::storage& memory() const { return storage_; }
  std::size_t offset() const { return static_cast<std::size_t>(mutable_data_ - static_cast<T*>(storage_.data())); }

  /// Prints like NumPy.
  template <class Traits>
  friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const tensor& t) {
    auto s = detail::print(t.mutable_data_, dtype_of<T>, t.shape_);
    out.write(s.data(), static_cast<std::ptrdiff_t>(s.size()));
    return out;
  }

 private:
  struct not_cleared {};
  // Pointer to the elements; null if there are none.
  T* held() const {
    if (!mutable_data_) [[unlikely]]
      detail::check_not_moved_from(shape_);
    return mutable_data_;
  }
  tensor(not_cleared, const lamina::shape& s)
      : storage_(static_cast<std::size_t>(s.size()) * sizeof(T)),
        mutable_data_(static_cast<T*>(storage_.data())),
        shape_(s) {}
  static constexpr lamina::shape inner_pattern() {
    lamina::shape s;
    for (int a = 1; a < rank; ++a) s.push_back(pattern[a]);
    return s;
  }
  static constexpr lamina::shape rows_pattern() {
    lamina::shape s = pattern;
    if (rank) s[0] = dyn;
    return s;
  }
  using inner = extents_for<inner_pattern()>;
  using any_rows = extents_for<rows_pattern()>;

  void allocate(const lamina::shape& s, bool clear) {
    shape_ = s;
    storage_ = lamina::storage(static_cast<std::size_t>(s.size()) * sizeof(T));
    mutable_data_ = static_cast<T*>(storage_.data());
    if (clear && s.size())
      std::memset(static_cast<void*>(mutable_data_), 0, static_cast<std::size_t>(s.size()) * sizeof(T));
  }
  // Linear index for indices of the outermost axes, in units of the remaining sub-tensor.
  template <class... I> std::int64_t offset_of(I... i) const {
    constexpr int given = sizeof...(I);
    const std::int64_t index[] = {static_cast<std::int64_t>(i)..., 0};
    std::int64_t at = 0;
    for (int a = 0; a < given; ++a) {
      if (index[a] < 0 || index[a] >= shape_.at(a))
        detail::index_out_of_range(shape_, {index, static_cast<std::size_t>(given)});
      at = at * shape_.at(a) + index[a];
    }
    return at;
  }
  template <int R, class L> static void measure(const L& list, lamina::shape& s, int axis) {
    s[axis] = dim(list.size());
    if constexpr (R > 1)
      if (list.size()) measure<R - 1>(*list.begin(), s, axis + 1);
  }
  template <int R, class L> static void fill_from(const L& list, const lamina::shape& s, int axis, T*& out) {
    if (static_cast<std::int64_t>(list.size()) != s.at(axis)) ragged();
    for (const auto& x : list) {
      if constexpr (R > 1) fill_from<R - 1>(x, s, axis + 1, out);
      else *out++ = x;
    }
  }
  [[noreturn]] static void ragged() {
    detail::raise(error_kind::shape, "tensor: the rows of a nested list have different lengths");
  }

  lamina::storage storage_;
  T* mutable_data_ = nullptr;
  lamina::shape shape_;
};

export template <Element T> using scalar = tensor<T, extents<>>;
export template <Element T, dim N = dyn> using vector = tensor<T, extents<N>>;
export template <Element T, dim Rows = dyn, dim Columns = dyn> using matrix = tensor<T, extents<Rows, Columns>>;

template <int Rank> consteval shape all_dynamic() {
  shape s;
  for (int i = 0; i < Rank; ++i) s.push_back(dyn);
  return s;
}
/// A tensor of a rank with all extents known only at run time.
export template <Element T, int Rank> using tensor_of_rank = tensor<T, extents_for<all_dynamic<Rank>()>>;

namespace detail {
/// Errors: shape_error unless every extent is a number and `elements` covers their product.
void check_borrowed(std::size_t elements, const shape& s);
}  // namespace detail
/// Views the caller's memory as a tensor without a copy; the memory must outlive every use. Const memory is read-only.
export template <class T, std::size_t Rank> requires Element<std::remove_const_t<T>>
auto borrow(T* data, const std::int64_t (&dims)[Rank]) {
  shape s = shape::of({dims, Rank});
  return tensor_of_rank<std::remove_const_t<T>, static_cast<int>(Rank)>(
      storage::borrowed(data, static_cast<std::size_t>(s.size()) * sizeof(T)), s);
}
/// Views the caller's span as a tensor. Errors: shape_error if the span has fewer elements than the extents.
export template <class T, std::size_t N, std::size_t Rank> requires Element<std::remove_const_t<T>>
auto borrow(std::span<T, N> data, const std::int64_t (&dims)[Rank]) {
  detail::check_borrowed(data.size(), shape::of({dims, Rank}));
  return borrow(data.data(), dims);
}
/// Same, for a shape object, with its known extents in the type: `borrow<extents<dyn, 784>>(span, s)`.
export template <class Extents, class T, std::size_t N> requires requires {
  Extents::pattern;
} && Element<std::remove_const_t<T>> auto borrow(std::span<T, N> data, const shape& s) {
  detail::check_borrowed(data.size(), s);
  return tensor<std::remove_const_t<T>, Extents>(
      storage::borrowed(data.data(), static_cast<std::size_t>(s.size()) * sizeof(T)), s);
}

// ---- data without storage -------------------------------------------------------------------------------------------

/// A tensor of equal elements; has no storage until evaluated.
template <Element T, class Extents> class uniform_tensor {
 public:
  using element_type = T;
  using extents_type = Extents;
  using evaluation_mode = lazy;
  static constexpr lamina::shape pattern = Extents::pattern;
  uniform_tensor(T value, const lamina::shape& s) : value_(value), shape_(s) { detail::check_extents(pattern, s); }
  const lamina::shape& shape() const { return shape_; }
  const T& value() const { return value_; }
  /// Element or sub-tensor at a position of the first axis. Errors: shape_error for a position out of bounds.
  auto operator[](std::int64_t i) const requires(pattern.rank > 0) { return select(*this, 0, i); }

 private:
  T value_;
  lamina::shape shape_;
};

/// Zeros of the given extents, without storage: `zeros(2, 3)` of float, `zeros<double>(2, 3)`.
export template <Element T = float, std::integral... I> auto zeros(I... n) {
  return uniform_tensor<T, extents_for<all_dynamic<sizeof...(I)>()>>(T{}, shape{dim(n)...});
}
/// Zeros of static extents, without storage.
export template <Element T, class Extents> requires(Extents::pattern.is_static()) auto zeros() {
  return uniform_tensor<T, Extents>(T{}, Extents::pattern);
}
/// A constant tensor, without storage.
export template <Element T, std::integral... I> auto filled(T value, I... n) {
  return uniform_tensor<T, extents_for<all_dynamic<sizeof...(I)>()>>(value, shape{dim(n)...});
}

/// A vector with `value` at one position and zeros elsewhere; has no storage until evaluated.
template <Element T> class one_hot_vector {
 public:
  using element_type = T;
  using extents_type = extents<dyn>;
  using evaluation_mode = lazy;
  static constexpr lamina::shape pattern = extents_type::pattern;
  one_hot_vector(std::int64_t length, std::int64_t position, T value)
      : shape_{dim(length)}, position_(position), value_(value) {
    if (position < 0 || position >= length) {
      text t;
      t << "one_hot: position " << position << " is outside 0.." << length - 1;
      detail::raise(error_kind::value, t);
    }
  }
  const lamina::shape& shape() const { return shape_; }
  const std::int64_t& position() const { return position_; }
  /// Element at a position. Errors: shape_error for a position out of bounds.
  auto operator[](std::int64_t i) const { return select(*this, 0, i); }
  const T& value() const { return value_; }

 private:
  lamina::shape shape_;
  std::int64_t position_;
  T value_;
};
/// `one_hot(10, 3)` of float, `one_hot<double>(10, 3)`. Errors: value_error if `position` is not below `length`, in every
/// build.
export template <Element T = float>
one_hot_vector<T> one_hot(std::int64_t length, std::int64_t position, T value = T(1)) {
  return {length, position, value};
}

// ---- any element type -----------------------------------------------------------------------------------------------

/// A tensor whose element type and rank are known only at run time, as used by programs, files and nets.
export class any_tensor {
 public:
  any_tensor() = default;
  /// Existing memory viewed with a type. Errors: shape_error if it has fewer bytes; value_error if misaligned.
  any_tensor(storage memory, tensor_type type, std::size_t first_byte = 0) : storage_(std::move(memory)), type_(type) {
    detail::check_memory(storage_, type_, first_byte);
    data_ = static_cast<std::byte*>(storage_.data()) + first_byte;
  }
  template <Element T, class E> any_tensor(const tensor<T, E>& t)
      : storage_(t.memory()), type_(t.type()), data_(reinterpret_cast<std::byte*>(const_cast<T*>(t.data().data()))) {}
  /// Zeros of a type.
  explicit any_tensor(const tensor_type& type);
  any_tensor(const any_tensor&) = default;
  any_tensor& operator=(const any_tensor&) = default;
  // A moved-from object keeps its type and has no elements.
  any_tensor(any_tensor&& o) noexcept
      : storage_(std::move(o.storage_)), type_(o.type_), data_(std::exchange(o.data_, nullptr)) {}
  any_tensor& operator=(any_tensor&& o) noexcept {
    storage_ = std::move(o.storage_);
    type_ = o.type_;
    data_ = std::exchange(o.data_, nullptr);
    return *this;
  }
  ~any_tensor() = default;

  /// Strings in row-major order, copied and immutable. They can be stored, read and printed, but not computed with.
  /// Errors: shape_error if their number differs from the shape's size.
  static any_tensor of_strings(const lamina::shape& s, view<const std::string> strings);
  /// A type without memory, like a moved-from tensor: its elements are elsewhere.
  static any_tensor without_elements(const tensor_type& type) {
    any_tensor t;
    t.type_ = type;
    return t;
  }

  const tensor_type& type() const { return type_; }
  const lamina::shape& shape() const { return type_.dims; }
  dtype element() const { return type_.element; }
  std::size_t bytes() const { return type_.bytes(); }
  /// Null without memory: for empty and moved-from tensors.
  const std::byte* data() const { return data_; }
  /// Writable bytes; the caller ensures that no thread reads concurrently. Errors: state_error if the memory is const
  /// or the tensor was moved from.
  std::byte* mutable_data() {
    if (storage_.is_constant()) [[unlikely]]
      detail::write_refused(type_.dims, storage_);
    return held();
  }
  const lamina::storage& memory() const { return storage_; }
  explicit operator bool() const { return static_cast<bool>(storage_); }
  any_tensor copy() const;
  /// Makes this the only handle of its memory, by a copy if it is shared or const.
  any_tensor& detach() {
    if (!storage_.unique()) *this = copy();
    return *this;
  }

  /// The same memory as a typed tensor. Errors: type_error, shape_error; state_error without memory.
  template <Element T, class E> tensor<T, E> as() const {
    check_type(dtype_of<T>);
    return tensor<T, E>(storage_, type_.dims,
                        static_cast<std::size_t>(held() - static_cast<std::byte*>(storage_.data())) / sizeof(T));
  }
  /// Same, as an implicit conversion: `matrix<float> a = ws.fetch("a");`.
  template <Element T, class E> operator tensor<T, E>() const { return as<T, E>(); }
  template <Element T> view<const T> elements() const {
    check_type(dtype_of<T>);
    return view<const T>(reinterpret_cast<const T*>(held()), static_cast<std::size_t>(type_.dims.size()));
  }
  /// Strings, valid while this tensor or a copy of it lives.   Errors: type_error, state_error.
  template <std::same_as<std::string_view> T> view<const T> elements() const {
    check_type(dtype::string);
    return view<const T>(reinterpret_cast<const T*>(held()), static_cast<std::size_t>(type_.dims.size()));
  }
  std::string print() const { return detail::print(data_, type_.element, type_.dims); }

 private:
  void check_type(dtype expected) const;
  std::byte* held() const {
    if (!data_) [[unlikely]]
      detail::check_not_moved_from(type_.dims);
    return data_;
  }
  storage storage_;
  tensor_type type_;
  std::byte* data_ = nullptr;
};
/// Views the caller's span with a shape of any rank; `as` adds static types. Errors: shape_error if the span has
/// fewer elements than the shape.
export template <class T, std::size_t N> requires Element<std::remove_const_t<T>>
any_tensor borrow(std::span<T, N> data, const shape& s) {
  detail::check_borrowed(data.size(), s);
  return any_tensor(storage::borrowed(data.data(), static_cast<std::size_t>(s.size()) * sizeof(T)),
                    {dtype_of<std::remove_const_t<T>>, s});
}

}  // namespace lamina
